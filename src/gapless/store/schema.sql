-- What a run recorded, for people and tools that speak SQL. Derived from the logs; can be made again.
-- Times are nanoseconds on CLOCK_MONOTONIC, one axis for all processes of the host (columns _ns).
-- NULL: not observed. A row of `process` is one process; other tables name it by its id.

CREATE TABLE run (
    -- One row: what was run, when, and how it ended.
    id              TEXT    NOT NULL,
    command         TEXT    NOT NULL,  -- JSON: the words of the command
    folder          TEXT    NOT NULL,  -- in which it was started
    host            TEXT    NOT NULL,
    gapless         TEXT    NOT NULL,  -- version that recorded it
    started_unix_ns INTEGER NOT NULL,  -- since 1970; subtract started_ns to date other times
    started_ns      INTEGER NOT NULL,
    ended_ns        INTEGER,
    exit_code       INTEGER,
    status          TEXT    NOT NULL,  -- running, finished, failed, killed
    stopped_by      TEXT               -- 'check': gapless ended it, as asked
) STRICT;

CREATE TABLE process (
    -- A row for each process that stepped or loaded.
    id       INTEGER PRIMARY KEY,
    pid      INTEGER,
    role     TEXT    NOT NULL,  -- training, worker
    rank     INTEGER,
    world    INTEGER,           -- number of ranks
    worker   INTEGER,           -- its number among the workers of its loader
    loader   INTEGER,
    start_ns INTEGER NOT NULL,
    end_ns   INTEGER,           -- NULL: it was killed
    argv     TEXT    NOT NULL,  -- JSON
    versions TEXT    NOT NULL   -- JSON: python, torch, cuda, cudnn
) STRICT;

CREATE TABLE mark_kind (
    kind INTEGER PRIMARY KEY,
    name TEXT NOT NULL
) STRICT;

CREATE TABLE mark (
    -- What happened on a thread of the training process. What subject and value are depends on the
    -- kind: docs/run-folder.md.
    process  INTEGER NOT NULL,
    kind     INTEGER NOT NULL,  -- mark_kind
    flags    INTEGER NOT NULL,  -- 1 exhausted, 2 raised, 4 not on the thread that steps
    subject  INTEGER,           -- fact.id or site.id
    thread   INTEGER,
    start_ns INTEGER NOT NULL,
    end_ns   INTEGER NOT NULL,
    value    INTEGER
) STRICT;

CREATE TABLE batch (
    -- A row for each fetch: a batch made by a worker, or in the training process.
    process           INTEGER NOT NULL,
    loader            INTEGER,
    worker            INTEGER,  -- NULL: fetched in the training process
    sequence          INTEGER,  -- fetches of this iteration before, in this process
    samples           INTEGER,
    start_ns          INTEGER NOT NULL,
    end_ns            INTEGER NOT NULL,
    cpu_ns            INTEGER,  -- of this thread on a processor
    run_queue_ns      INTEGER,  -- ready, waiting for a processor
    minor_faults      INTEGER,
    major_faults      INTEGER,
    bytes_read        INTEGER,  -- asked for by read calls
    bytes_from_disk   INTEGER,
    random            INTEGER,  -- 1: it advanced a random generator, 0: it did not
    detailed          INTEGER,  -- 1: the stages were measured
    read_wall_ns      INTEGER,
    read_cpu_ns       INTEGER,
    decode_wall_ns    INTEGER,
    decode_cpu_ns     INTEGER,
    augment_wall_ns   INTEGER,
    augment_cpu_ns    INTEGER,
    tokenise_wall_ns  INTEGER,
    tokenise_cpu_ns   INTEGER,
    collate_wall_ns   INTEGER,
    collate_cpu_ns    INTEGER,
    other_wall_ns     INTEGER,
    other_cpu_ns      INTEGER
) STRICT;

CREATE TABLE fact (
    -- A thing that the training uses, and the line of source that made it.
    process  INTEGER NOT NULL,
    noun     TEXT    NOT NULL,  -- loader, optimizer, model, …
    id       INTEGER NOT NULL,  -- within its noun and process
    file     TEXT,
    line     INTEGER,
    function TEXT,
    "values" TEXT    NOT NULL   -- JSON: its settings
) STRICT;

CREATE TABLE site (
    -- A line of source that marks name.
    process  INTEGER NOT NULL,
    id       INTEGER NOT NULL,
    file     TEXT,
    line     INTEGER,
    function TEXT
) STRICT;

CREATE TABLE stack (
    -- A Python stack that was sampled, and how often.
    process  INTEGER NOT NULL,
    thread   TEXT    NOT NULL,  -- training, worker
    count    INTEGER NOT NULL,
    file     TEXT,              -- of the innermost frame
    line     INTEGER,
    function TEXT,
    frames   TEXT    NOT NULL   -- JSON: [[file, line, function], …], innermost first
) STRICT;

CREATE TABLE "window" (
    -- A stretch that torch.profiler recorded.
    process    INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    path       TEXT,              -- in the run folder; NULL: not kept
    start_ns   INTEGER NOT NULL,
    end_ns     INTEGER NOT NULL,
    first_step INTEGER NOT NULL,
    last_step  INTEGER NOT NULL,
    stacks     INTEGER NOT NULL,  -- 1: with Python stacks
    offset_ns  INTEGER,           -- its clock less ours
    error_ns   INTEGER,           -- of offset_ns
    stop_ns    INTEGER,           -- what stopping took
    save_ns    INTEGER,
    discarded  TEXT               -- why it was not kept
) STRICT;

CREATE TABLE unseen (
    -- What could not be observed, and why.
    process INTEGER,           -- NULL: the run as a whole
    what    TEXT    NOT NULL,
    why     TEXT    NOT NULL,
    count   INTEGER NOT NULL
) STRICT;

CREATE TABLE file (
    -- A file that fetches opened, or that the training wrote.
    process INTEGER NOT NULL,
    path    TEXT    NOT NULL,
    opened  INTEGER NOT NULL,  -- how often, by fetches
    written INTEGER NOT NULL,  -- 1: it was written
    trace   INTEGER NOT NULL   -- 1: it is a trace that the user's own profiler exported
) STRICT;

CREATE TABLE counter (
    -- Counters of the allocator, a row for each number.
    process INTEGER NOT NULL,
    ns      INTEGER NOT NULL,
    device  INTEGER,
    name    TEXT    NOT NULL,
    value   REAL    NOT NULL
) STRICT;

CREATE TABLE sample (
    -- What the launcher's samplers saw of the machine.
    name  TEXT    NOT NULL,  -- gpu0.sm, cpu.total, …
    ns    INTEGER NOT NULL,
    value REAL    NOT NULL
) STRICT;

CREATE INDEX mark_by_kind ON mark (kind, process, subject, end_ns, flags);

CREATE VIEW steps AS
    -- Calls of optimizer.step(); step_ms: from the end of the one before to the end of this one.
    SELECT process, subject AS optimizer,
           row_number() OVER calls AS number,
           start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS call_ms,
           (end_ns - lag(end_ns) OVER calls) / 1e6 AS step_ms
    FROM mark WHERE kind = 0
    WINDOW calls AS (PARTITION BY process, subject ORDER BY end_ns);

CREATE VIEW waits AS
    -- Calls of next(loader): how long the training waited for each batch.
    SELECT mark.process, mark.subject AS loader, fact.file, fact.line, mark.value AS position,
           mark.start_ns, mark.end_ns,
           (mark.end_ns - mark.start_ns) / 1e6 AS wait_ms,
           mark.flags & 1 AS exhausted
    FROM mark LEFT JOIN fact
      ON fact.process = mark.process AND fact.noun = 'loader' AND fact.id = mark.subject
    WHERE mark.kind = 1;

CREATE VIEW fetches AS
    -- Fetches: where the time of a batch went. blocked_ms is neither on a processor nor ready.
    SELECT process, loader, worker, sequence, samples, start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS wall_ms,
           cpu_ns / 1e6 AS cpu_ms,
           run_queue_ns / 1e6 AS run_queue_ms,
           (end_ns - start_ns - cpu_ns - run_queue_ns) / 1e6 AS blocked_ms
    FROM batch;

CREATE VIEW events AS
    -- All marks by time, with the names of their kinds.
    SELECT process, mark_kind.name, subject, thread, start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS ms, value, flags
    FROM mark JOIN mark_kind USING (kind) ORDER BY start_ns;
