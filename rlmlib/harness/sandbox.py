"""Confines a REPL worker by the Linux kernel's own means. Runs in the worker: standard library only.

Three layers, none of which needs root or a container:
- seccomp: no new processes or programs, no sockets but connected pairs, no signals to others, no tracing, mounting or
  key rings, no changes of owners and modes, no memory files. It is what a hostile block meets first, and it holds what
  the Landlock of older kernels does not know of: truncating, and signals by way of a file's owner.
- Landlock: reads the Python installation and shared libraries, writes its scratch folder, nothing else.
- Namespaces, where the system allows them: no network device but a dead loopback, and a scratch folder
  that is a small file system in memory.
Resource limits bound memory, CPU seconds, file size and open files. Beyond them a worker can hold its scratch folder
(without namespaces: on disk, and bounded by a file's size alone) and the buffers of its pipes and socket pairs, which is
tens of megabytes with 64 descriptors. What stays visible: whether a path exists (the kernel lets `stat` pass).
`pyseccomp` needs a system library and `py-landlock` packages from site-packages, which a worker cannot see; both are
thin, so the calls are made here.
"""

import ctypes
import errno
import os
import platform
import resource
import struct
import sys

ESSENTIAL = ("seccomp", "landlock")

# Names with their numbers on x86_64 and aarch64 (None: there is no such call).
REFUSED = {
    # programs and processes; clone is allowed for threads, see _program
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "setsid": (112, 157), "setpgid": (109, 154),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272), "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "setpriority": (141, 140), "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119), "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
    "migrate_pages": (256, 238), "move_pages": (279, 239),
    # network; socketpair and sendto stay, see _program. What sendmsg has as an address, or descriptors, no filter can read
    "socket": (41, 198), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201), "accept": (43, 202), "accept4": (288, 242),
    "sendmsg": (46, 211), "sendmmsg": (307, 269),
    # memory that no resource limit counts
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "vmsplice": (278, 75),
    # shared memory and queues of the system
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "semget": (64, 190), "semctl": (66, 191), "semop": (65, 193),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgctl": (71, 187), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    # what Landlock does not cover, or not on older kernels: lengths, watches, flags that are in memory
    "truncate": (76, 45), "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    "fanotify_mark": (301, 263), "openat2": (437, 437),
    # owners, modes, times and attributes, which Landlock does not cover
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55),
    "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "setxattrat": (463, 463), "removexattrat": (466, 466),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10), "listxattr": (194, 11), "llistxattr": (195, 12),
    "flistxattr": (196, 13), "getxattrat": (464, 464), "listxattrat": (465, 465), "file_getattr": (468, 468), "file_setattr": (469, 469),
    # file systems and namespaces
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51),
    "open_tree": (428, 428), "open_tree_attr": (467, 467), "move_mount": (429, 429), "fsopen": (430, 430), "fsconfig": (431, 431),
    "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "quotactl": (179, 60), "quotactl_fd": (443, 443), "swapon": (167, 224), "swapoff": (168, 225), "fanotify_init": (300, 262),
    # the kernel
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "reboot": (169, 142), "acct": (163, 89), "syslog": (103, 116),
    "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
    "sethostname": (170, 161), "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "personality": (135, 92),
}  # fmt: skip
# Calls that some arguments are refused of, see _program.
CLONE, CLONE3, KILL, TGKILL, PRLIMIT = (56, 220), (435, 435), (62, 129), (234, 131), (302, 261)
SENDTO, SOCKETPAIR, FCNTL, IOCTL, PRCTL, OPEN, OPENAT = (44, 206), (53, 199), (72, 25), (16, 29), (157, 167), (2, None), (257, 56)
ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}

_LOAD, _AND, _EQUAL, _GREATER_EQUAL, _ANY_BIT, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_NUMBER, _ARCH, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_CLONE_THREAD = 0x00010000
_FILE_SIGNALS = (8, 10, 15, 1024, 1026)  # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
_SOCKET_OWNERS = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP
_AF_UNIX, _SOCK_STREAM, _SOCK_FLAGS = 1, 1, 0o2004000  # SOCK_CLOEXEC, SOCK_NONBLOCK
_O_ACCMODE, _O_TRUNC = 0o3, 0o1000
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 1, 38, 22
_NEWNS, _NEWIPC, _NEWUSER, _NEWNET = 0x00020000, 0x08000000, 0x10000000, 0x40000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC, _MS_REC, _MS_PRIVATE = 2, 4, 8, 0x4000, 1 << 18
_LANDLOCK_CREATE, _LANDLOCK_ADD, _LANDLOCK_RESTRICT = 444, 445, 446
_READ_FILE, _READ_DIR, _WRITE_FILE, _EXECUTE, _IOCTL_DEVICE = 1 << 2, 1 << 3, 1 << 1, 1, 1 << 15

_libc = ctypes.CDLL(None, use_errno=True)


def _call(function, *arguments) -> int:
    result = function(*arguments)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def die_with_parent(parent: int):
    """Have the kernel kill this process when the thread that forked it ends; elsewhere than on Linux nothing does.

    Raises ProcessLookupError where `parent` has ended already. To be called before `confine`, which forbids it.
    """
    if sys.platform == "linux":
        _call(_libc.prctl, _PR_SET_PDEATHSIG, 9, 0, 0, 0)
    if os.getppid() != parent:
        raise ProcessLookupError(errno.ESRCH, "the server has ended")


def enter_namespaces() -> bool:
    """Leave the host's network and System V IPC, once, in the server; False where the system does not allow it."""
    user, group = os.getuid(), os.getgid()
    try:
        _call(_libc.unshare, _NEWUSER | _NEWNET | _NEWIPC | _NEWNS)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
        _call(_libc.mount, None, b"/", None, _MS_REC | _MS_PRIVATE, None)
    except (OSError, AttributeError):
        return False
    return True


def mount_scratch(folder: str, megabytes: int) -> bool:
    """Cover the folder with a file system in memory that only this worker sees; it is gone with the worker."""
    options = f"size={megabytes}m,nr_inodes=4096,mode=700".encode()
    try:
        _call(_libc.unshare, _NEWNS)
        _call(_libc.mount, b"tmpfs", folder.encode(), b"tmpfs", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC, options)
    except (OSError, AttributeError):
        return False
    return True


def limit_resources(memory_mb: int, cpu_s: int, file_mb: int = 16, files: int = 64):
    """Address space, CPU seconds, size of a file, open files, no core dumps; or less, where this process has hard limits below these."""
    for what, value in (
        (resource.RLIMIT_AS, memory_mb << 20),
        (resource.RLIMIT_CPU, cpu_s),
        (resource.RLIMIT_FSIZE, file_mb << 20),
        (resource.RLIMIT_NOFILE, files),
        (resource.RLIMIT_CORE, 0),
    ):
        hard = resource.getrlimit(what)[1]
        limit = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(what, (limit, limit))


def confine(scratch: str) -> list[str]:
    """Confine this process for good; returns the layers that hold. Threads must not have been started."""
    holds = []
    if sys.platform != "linux":
        return holds
    _drop_capabilities()
    _call(_libc.prctl, _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    for name, layer in (("landlock", lambda: _landlock(scratch)), ("seccomp", _seccomp)):
        try:
            layer()
        except (OSError, AttributeError, KeyError):
            continue
        holds.append(name)
    return holds


def readable() -> list[str]:
    """What Python needs to import the standard library and its shared libraries."""
    python = [os.path.join(sys.base_prefix, part) for part in ("lib", "lib64")]
    system = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/share/zoneinfo", "/etc/localtime", "/etc/ld.so.cache"]
    return [path for path in dict.fromkeys(python + system + ["/dev/null", "/dev/zero", "/dev/urandom"]) if os.path.exists(path)]


def _drop_capabilities():
    header = struct.pack("=Ii", 0x20080522, 0)
    _call(_libc.capset, header, bytes(24))


def _landlock(scratch: str):
    abi = _call(_libc.syscall, _LANDLOCK_CREATE, None, 0, 1)
    every = (1 << (13 if abi < 2 else 14 if abi < 3 else 15 if abi < 5 else 16)) - 1
    attributes = struct.pack("=QQQ", every, 0b11, 0b11)  # file rights; TCP bind and connect; abstract sockets and signals
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _call(_libc.syscall, _LANDLOCK_CREATE, attributes, size, 0)
    try:
        for path in readable():
            files_only = 0 if os.path.isdir(path) else _READ_DIR
            _allow(ruleset, path, (_READ_FILE | _READ_DIR) & ~files_only | (_WRITE_FILE if path == "/dev/null" else 0))
        _allow(ruleset, scratch, every & ~_EXECUTE & ~_IOCTL_DEVICE)
        _call(_libc.syscall, _LANDLOCK_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int):
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        _call(_libc.syscall, _LANDLOCK_ADD, ruleset, 1, struct.pack("=Qi", rights, descriptor), 0)
    finally:
        os.close(descriptor)


def _seccomp():
    column, architecture = ARCHITECTURES[platform.machine()]
    instructions = _program(column, architecture, os.getpid())
    code = ctypes.create_string_buffer(b"".join(instructions))
    program = struct.pack("HP", len(instructions), ctypes.addressof(code))
    _call(_libc.prctl, _PR_SET_SECCOMP, 2, program, 0, 0)


def _program(column: int, architecture: int, pid: int) -> list[bytes]:
    """The filter: a list of BPF instructions. Each test jumps over its own verdict."""

    def step(code, value, when=0, otherwise=0):
        return struct.pack("=HBBI", code, when, otherwise, value)

    def argument(index, half=0):
        """Load the lower or the upper 32 bits; of an int the kernel reads the lower alone."""
        return step(_LOAD, _ARGUMENTS + 8 * index + 4 * half)

    def unless(value):
        """Refuse any other value."""
        return [step(_EQUAL, value, 1), refuse]

    def when(values):
        """Refuse these values."""
        return [part for value in values for part in (step(_EQUAL, value, 0, 1), refuse)]

    refuse = step(_RETURN, _ERRNO | errno.EPERM)
    unknown = step(_RETURN, _ERRNO | errno.ENOSYS)
    allow = step(_RETURN, _ALLOW)
    no_reader_truncates = [step(_AND, _O_TRUNC | _O_ACCMODE), *when([_O_TRUNC, _O_TRUNC | _O_ACCMODE])]  # 3 asks for no right at all
    to_itself = [argument(0), *unless(pid)]
    by_argument = [  # sendto first: a worker speaks by it
        (SENDTO, [argument(4), *unless(0), argument(4, half=1), *unless(0)]),  # an address: of a socket outside
        (SOCKETPAIR, [argument(0), *unless(_AF_UNIX), argument(1), step(_AND, ~_SOCK_FLAGS & 0xFFFFFFFF), *unless(_SOCK_STREAM)]),
        (CLONE3, [unknown]),  # libc then uses clone, whose flags can be read
        (CLONE, [argument(0), step(_ANY_BIT, _CLONE_THREAD, 1), refuse]),
        (KILL, to_itself),
        (TGKILL, to_itself),
        (PRLIMIT, [argument(0), step(_EQUAL, 0, 2), *unless(pid)]),
        (PRCTL, [argument(0), *when([_PR_SET_PDEATHSIG])]),  # or a worker would outlive its server
        (FCNTL, [argument(1), *when(_FILE_SIGNALS)]),
        (IOCTL, [argument(1), *when(_SOCKET_OWNERS)]),
        (OPEN, [argument(1), *no_reader_truncates]),
        (OPENAT, [argument(2), *no_reader_truncates]),
    ]
    steps = [step(_LOAD, _ARCH), step(_EQUAL, architecture, 1), step(_RETURN, _KILL), step(_LOAD, _NUMBER)]
    if column == 0:
        steps += [step(_GREATER_EQUAL, 0x40000000, 0, 1), refuse]  # the x32 calls, which have other numbers
    for numbers, tests in by_argument:
        if numbers[column] is not None:
            steps += [step(_EQUAL, numbers[column], 0, len(tests) + 1), *tests, allow]
    for numbers in REFUSED.values():
        if numbers[column] is not None:
            steps += [step(_EQUAL, numbers[column], 0, 1), refuse]
    return [*steps, allow]
