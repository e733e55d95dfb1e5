"""A client of gapless mcp, without a library: why did the last run here take so long?

python examples/ask_by_mcp.py [FOLDER]
"""

import json
import subprocess
import sys


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "."
    command = [sys.executable, "-m", "gapless", "mcp", "--root", folder]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def ask(number, method, **params):
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            print(json.dumps(request), file=server.stdin, flush=True)
            return json.loads(server.stdout.readline())["result"]

        client = {"name": "example", "version": "1"}
        ask(1, "initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        print(json.dumps(ready), file=server.stdin, flush=True)
        print("tools:", *(tool["name"] for tool in ask(2, "tools/list")["tools"]))
        answer = ask(3, "tools/call", name="findings", arguments={"run": "last"})
        text = answer["content"][0]["text"]
        if answer["isError"]:
            sys.exit(text)
        findings = json.loads(text)
        print(findings["verdict"]["sentence"])
        for finding in findings.get("findings", ()):
            print(finding["code"], finding["summary"])
            print("  helps:", *finding["helps"])
        server.stdin.close()


if __name__ == "__main__":
    main()
