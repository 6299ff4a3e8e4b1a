"""The add-on's only process but for its children: Redis, the daemon, the page and the forwarder.

One that ends takes the others with it, and the container ends with its exit code.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

from daemon.serve.access import ServeError, password_line

FIRST = """\
# Every key: docs/configuration.md of narrated. ${{env:NAME}} is a secret of the add-on's options.
version: 1
state: {data}/state
redis: {{url: "unix://{data}/redis.sock"}}
forward:
  mqtt:
    home: {{url: "${{env:MQTT}}"}}

# Name your cameras, then start the add-on again. For example
#  yard:
#    url: rtsp://${{env:YARD}}@10.0.0.5/stream1
cameras: {{}}
"""
SUPERVISOR, LISTEN = "http://supervisor", "0.0.0.0:8470"
GRACE_S = 20.0


def environment(options: dict[str, object], supervisor: str) -> dict[str, str]:
    """Secrets of the options, and the broker's address as Home Assistant gives it."""
    request = Request(f"{supervisor}/services/mqtt")  # noqa: S310 - the supervisor's own address
    request.add_header("Authorization", f"Bearer {os.environ.get('SUPERVISOR_TOKEN', '')}")
    with urlopen(request, timeout=10) as answer:  # noqa: S310
        broker = json.load(answer)["data"]
    login = f"{quote(broker['username'], safe='')}:{quote(broker['password'], safe='')}"
    scheme = "mqtts" if broker["ssl"] else "mqtt"
    secrets = {each["name"]: each["value"] for each in options["secrets"]}
    return {**os.environ, **secrets, "MQTT": f"{scheme}://{login}@{broker['host']}:{broker['port']}"}


def main(data: Path, configuration: Path, supervisor: str = SUPERVISOR, listen: str = LISTEN) -> int:
    """Run until SIGTERM or until a child ends; the exit code."""
    options = json.loads((data / "options.json").read_text())
    try:
        login = password_line(options["user"], options["password"])
    except ServeError as error:
        return complain(f"the page's login in the add-on's options: {error}")
    if not configuration.exists():
        configuration.write_text(FIRST.format(data=data))
    passwords = data / "passwords"
    passwords.touch(0o600)
    passwords.write_text(login + "\n")
    try:
        env = environment(options, supervisor) | {"HOME": str(data)}
    except (OSError, ValueError, KeyError) as error:
        return complain(f"no MQTT broker: {error}; install the add-on Mosquitto broker")
    narrated = [sys.executable, "-m", "daemon.cli"]
    known = ["-c", str(configuration)]
    checked = subprocess.run([*narrated, "check-config", *known], env=env, check=False)
    if checked.returncode:
        complain(f"name your cameras in {configuration.name}, see the documentation")
        return checked.returncode
    redis = ["redis-server", "--port", "0", "--unixsocket", f"{data}/redis.sock", "--dir", str(data)]
    page = ["serve", *known, "--listen", listen, "--passwords", str(passwords)]
    commands = [redis, [*narrated, "run", *known], [*narrated, *page], [*narrated, "forward", *known]]
    ended = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(0))
    children = [subprocess.Popen(command, env=env) for command in commands]
    while not ended:
        ended += [child.returncode for child in children if child.poll() is not None]
        time.sleep(0.2)
    for child in reversed(children):  # the server last: the rest is published before it goes
        child.terminate()
        try:
            child.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
    return ended[0]


def complain(reason: str) -> int:
    """Say why it cannot run; the exit code."""
    print(f"narrated: {reason}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(Path("/data"), Path("/config/narrated.yaml")))
