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
    -- kind: docs/run-folder.md. Where many happen, most are in mark_sum instead.
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
    -- A row for each fetch: a batch made by a worker, or in the training process. Where many are
    -- made, most are in batch_sum instead.
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

CREATE TABLE mark_sum (
    -- Where steps are short or the run is long, most marks are not kept one by one but added up: a
    -- row for each stretch of time and kind of mark. Each mark is in `mark` or in one row here.
    process    INTEGER NOT NULL,
    kind       INTEGER NOT NULL,  -- mark_kind
    flags      INTEGER NOT NULL,  -- as in mark
    subject    INTEGER,
    thread     INTEGER,
    start_ns   INTEGER NOT NULL,  -- of the stretch: the end of the last mark before it
    end_ns     INTEGER NOT NULL,  -- of the stretch: the end of its last mark
    count      INTEGER NOT NULL,
    total_ns   INTEGER NOT NULL,  -- in these marks, less waits and interruptions inside them
    longest_ns INTEGER NOT NULL,  -- the longest of them, all inside included
    value      INTEGER            -- of device-step: the sum of the values
) STRICT;

CREATE TABLE batch_sum (
    -- Likewise of fetches: a row for each stretch, loader and worker.
    process           INTEGER NOT NULL,
    loader            INTEGER,
    worker            INTEGER,           -- NULL: fetched in the training process
    start_ns          INTEGER NOT NULL,  -- of the first fetch
    end_ns            INTEGER NOT NULL,  -- of the last
    count             INTEGER NOT NULL,
    samples           INTEGER,           -- sums; NULL: not observed of each
    wall_ns           INTEGER,
    cpu_ns            INTEGER,
    run_queue_ns      INTEGER,
    minor_faults      INTEGER,
    major_faults      INTEGER,
    bytes_read        INTEGER,
    bytes_from_disk   INTEGER,
    random            INTEGER,           -- how many advanced a random generator …
    looked            INTEGER,           -- … of how many that were looked at
    detailed          INTEGER,           -- in how many stages were measured: the rest is theirs
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
    other_cpu_ns      INTEGER,
    detailed_wall_ns  INTEGER,
    detailed_samples  INTEGER
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
    -- Calls of optimizer.step() that were kept; step_ms: from the end of the one before to the end
    -- of this one, NULL where that was added up.
    SELECT process, subject AS optimizer,
           value + 1 AS number,
           start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS call_ms,
           CASE value - lag(value) OVER calls WHEN 1
               THEN (end_ns - lag(end_ns) OVER calls) / 1e6 END AS step_ms
    FROM mark WHERE kind = 0
    WINDOW calls AS (PARTITION BY process, subject ORDER BY end_ns);

CREATE VIEW waits AS
    -- Calls of next(loader) that were kept: how long the training waited for each batch.
    SELECT mark.process, mark.subject AS loader, fact.file, fact.line, mark.value AS position,
           mark.start_ns, mark.end_ns,
           (mark.end_ns - mark.start_ns) / 1e6 AS wait_ms,
           mark.flags & 1 AS exhausted
    FROM mark LEFT JOIN fact
      ON fact.process = mark.process AND fact.noun = 'loader' AND fact.id = mark.subject
    WHERE mark.kind = 1;

CREATE VIEW fetches AS
    -- Fetches that were kept: where the time of a batch went. blocked_ms is neither on a processor nor ready.
    SELECT process, loader, worker, sequence, samples, start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS wall_ms,
           cpu_ns / 1e6 AS cpu_ms,
           run_queue_ns / 1e6 AS run_queue_ms,
           (end_ns - start_ns - cpu_ns - run_queue_ns) / 1e6 AS blocked_ms
    FROM batch;

CREATE VIEW events AS
    -- All marks that were kept by time, with the names of their kinds.
    SELECT process, mark_kind.name, subject, thread, start_ns, end_ns,
           (end_ns - start_ns) / 1e6 AS ms, value, flags
    FROM mark JOIN mark_kind USING (kind) ORDER BY start_ns;

CREATE VIEW totals AS
    -- How many marks of each kind there were, those that were added up included.
    SELECT process, mark_kind.name, sum(count) AS count, sum(kept) AS kept
    FROM (SELECT process, kind, 1 AS count, 1 AS kept FROM mark
          UNION ALL SELECT process, kind, count, 0 FROM mark_sum)
    JOIN mark_kind USING (kind) GROUP BY process, kind;
