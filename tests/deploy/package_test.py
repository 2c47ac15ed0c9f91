# SPDX-License-Identifier: MIT
"""The Debian packages: made from what is built, installed, used, removed and purged.

dpkg runs for real, dependencies and maintainer scripts included, in a copy of this machine's
root that ends with the test: an overlay in a mount namespace. Needs root.
"""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

SOURCE, BUILD, CPACK = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
PROGRAMS = {"mnemon-client": "mnemon", "mnemon-server": "mnemon-server",
            "mnemon-train": "mnemon-train"}
PACKAGES = (*PROGRAMS, "mnemon-sequence")
LIMIT = 600  # seconds: only a command that hangs takes so long
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
               "LC_ALL": "C.UTF-8", "MANWIDTH": "200"}
# What dpkg, its triggers and its logs write of their own.
DPKG_OWN = re.compile(r"var/(lib/dpkg|lib/man-db|log|cache/ldconfig|cache/debconf)(/|$)"
                      r"|etc/ld\.so\.cache$")


def skip(reason):
    print(f"SKIPPED: deploy_package_test: {reason}")
    sys.exit(77)


def need(holds, *facts):
    if not holds:
        sys.exit("deploy_package_test: " + "\n".join(map(str, facts)))


def run(*words, code=0, **more):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True,
                          timeout=LIMIT, check=False, **more)
    need(done.returncode == code, f"{words}: exit code {done.returncode}, not {code}", done.stdout,
         done.stderr)
    return done.stdout


def make_packages(folder):
    """The files of the packages, by their names."""
    # What a package holds does not depend on how it is compressed.
    run(CPACK, "--config", BUILD / "CPackConfig.cmake", "-B", folder,
        "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=none", cwd=folder)
    files = {run("dpkg-deb", "-f", path, "Package").strip(): path for path in folder.glob("*.deb")}
    need(set(files) == set(PACKAGES), "packages:", sorted(files))
    version = re.search(r"^project\(mnemon VERSION (\S+)",
                        (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)[1]
    for name, path in files.items():
        need(run("dpkg-deb", "-f", path, "Version").strip() == version, name, "has another version")
    depends = {name: run("dpkg-deb", "-f", path, "Depends") for name, path in files.items()}
    need("libtorch1.13" in depends["mnemon-train"], depends)
    need("libtorch1.13" in depends["mnemon-sequence"], depends)
    need(f"mnemon-server (= {version})" in depends["mnemon-sequence"], depends)
    need("libtorch" not in depends["mnemon-server"] + depends["mnemon-client"], depends)
    need("libgrpc++1.51" in depends["mnemon-server"], depends)
    return files


class Root:
    """This machine's root with all that is written to it kept apart, in `folder`."""

    def __init__(self, folder):
        self.upper, self.path = folder / "upper", folder / "root"
        run("mount", "-t", "tmpfs", "mnemon", folder)
        for name in ("upper", "work", "root"):
            (folder / name).mkdir()
        run("mount", "-t", "overlay", "mnemon", "-o",
            f"lowerdir=/,upperdir={self.upper},workdir={folder / 'work'}", self.path)
        run("mount", "-t", "proc", "mnemon", self.path / "proc")
        run("mount", "--rbind", "/dev", self.path / "dev")

    def run(self, *words):
        return run("chroot", self.path, *words, env=ENVIRONMENT)

    def left(self):
        """What was written to it, and is not dpkg's own."""
        found = []
        for folder, folders, names in os.walk(self.upper):
            for name in folders + names:
                path = pathlib.Path(folder, name)
                place = path.relative_to(self.upper)
                if DPKG_OWN.match(str(place)):
                    continue
                mode = path.lstat().st_mode
                if not stat.S_ISDIR(mode) or not (pathlib.Path("/") / place).is_dir():
                    found.append(str(place))
        return sorted(found)


def check_files(root):
    """That each program has its completions and a page that man shows."""
    for package, program in PROGRAMS.items():
        files = root.run("dpkg", "-L", package).splitlines()
        for name in (f"/usr/bin/{program}", f"/usr/share/man/man1/{program}.1.gz",
                     f"/usr/share/bash-completion/completions/{program}",
                     f"/usr/share/fish/vendor_completions.d/{program}.fish",
                     f"/usr/share/zsh/vendor-completions/_{program}_completion",
                     f"/usr/share/doc/{package}/copyright"):
            need(name in files, f"{package} is without {name}")
        version = root.run(f"/usr/bin/{program}", "--version")
        need(re.match(rf"{program} \d+\.\d+\.\d+ \(commit ", version), version)
        root.run("bash", "-n", f"/usr/share/bash-completion/completions/{program}")
        if shutil.which("man"):
            page = root.run("man", program)
            need("--help-all" in page and "EXIT STATUS" in page, page[:2000])
    unit = "/lib/systemd/system/mnemon.service"
    need(unit in root.run("dpkg", "-L", "mnemon-server").splitlines(), "no", unit)
    if shutil.which("zsh"):
        root.run("zsh", "-fc", "autoload -Uz compinit && compinit -D -u && " + " && ".join(
            f"[[ $_comps[{program}] == _{program}_completion ]]" for program in PROGRAMS.values()))


def check_service(root, folder):
    """That the installed server serves what the shipped environment names."""
    text = folder / "text"
    text.write_text("the cat sat on the mat\n" * 200, encoding="utf-8")
    root.run("mnemon-train", "fit", "--config", "/usr/share/mnemon/configs/causal-small.toml",
             "--set", "data.text=/mnt/text", "train.steps=1", "model.layers=1", "model.d_model=8",
             "model.heads=2", "model.d_ff=16", "sample.tokens=0", "--out", "/mnt/run")
    root.run("mkdir", "-p", "/var/lib/mnemon")
    root.run("cp", "-rL", "/mnt/run/best", "/var/lib/mnemon/model")
    settings = dict(line.split("=", 1) for line in
                    (root.path / "etc/mnemon/server.env").read_text().splitlines()
                    if line and not line.startswith("#"))
    ports = folder / "ports"
    ports.mkdir()
    os.chmod(ports, 0o777)  # for the server, which is nobody
    for decoder in ("step", "sequence"):
        port = ports / decoder
        with open(folder / "log", "wb") as log:
            server = subprocess.Popen(
                ["chroot", root.path, "setpriv", "--reuid=65534", "--regid=65534",
                 "--clear-groups", "mnemon-server", "--listen", "127.0.0.1:0", "--http", "off",
                 "--port-file", f"/mnt/ports/{decoder}", "--decoder", decoder],
                env={**ENVIRONMENT, **settings}, stdout=log, stderr=log)
        try:
            end = time.monotonic() + LIMIT
            while not port.exists() or not port.read_text():
                need(server.poll() is None and time.monotonic() < end, "no server",
                     (folder / "log").read_text())
                time.sleep(0.02)
            address = f"127.0.0.1:{port.read_text().strip()}"
            out = root.run("mnemon", "generate", "--server", address, "--prompt", "the",
                           "--max-tokens", "3", "--ids")
            need(len(out.split(",")) == 3, out)
            server.send_signal(signal.SIGTERM)
            need(server.wait(LIMIT) == 0, (folder / "log").read_text())
        finally:
            server.kill()
            server.wait()


def inside(folder):
    """In namespaces of its own: installs the packages of `folder`, and takes them away."""
    root = Root(folder / "overlay")
    run("mount", "--bind", folder, root.path / "mnt")
    packages = sorted(f"/mnt/{path.name}" for path in folder.glob("*.deb"))
    # The index of all pages for man, which its trigger makes anew for seconds.
    (root.path / "var/lib/man-db/auto-update").unlink(missing_ok=True)
    root.run("dpkg", "-i", *packages)
    check_files(root)
    check_service(root, folder)
    if shutil.which("systemctl"):
        root.run("systemctl", "enable", "mnemon.service")
        need((root.path / "etc/systemd/system/multi-user.target.wants/mnemon.service").is_symlink())
    # An upgrade keeps what was configured.
    environment = root.path / "etc/mnemon/server.env"
    environment.write_text("MNEMON_SERVER_CHECKPOINT=/srv/other\n", encoding="utf-8")
    root.run("dpkg", "-i", *(name for name in packages if "server" in name))
    need("/srv/other" in environment.read_text(), "an upgrade changed", environment)

    root.run("dpkg", "--remove", *PACKAGES)
    need(environment.exists() and (root.path / "var/lib/mnemon/model").is_dir(),
         "a removal took configuration or models away")
    need(not (root.path / "usr/bin/mnemon-server").exists(), "a removal left the program")
    root.run("dpkg", "--purge", *PACKAGES)
    need(not root.left(), "left behind:", *root.left())
    print("deploy_package_test: installed, served, removed, nothing left")


def main():
    if os.geteuid() != 0:
        skip("dpkg and mounts want root")
    for tool in ("dpkg", "dpkg-shlibdeps", "setpriv", "unshare"):
        if not shutil.which(tool):
            skip(f"{tool} is missing")
    if len(sys.argv) > 4:
        inside(pathlib.Path(sys.argv[4]))
        return
    for package in PACKAGES:
        if subprocess.run(["dpkg-query", "-W", package], capture_output=True).returncode == 0:
            skip(f"{package} is installed on this machine")
    # All of it ends with this process.
    namespaces = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork",
                  "--kill-child"]
    with tempfile.TemporaryDirectory(prefix="mnemon-package.") as name:
        folder = pathlib.Path(name)
        os.chmod(folder, 0o755)
        (folder / "overlay").mkdir()
        can = subprocess.run(
            [*namespaces, "sh", "-ec", 'mount -t tmpfs mnemon "$0"; mkdir "$0"/u "$0"/w "$0"/m; '
             'mount -t overlay mnemon -o lowerdir=/,upperdir="$0"/u,workdir="$0"/w "$0"/m',
             folder / "overlay"], capture_output=True, text=True, check=False)
        if can.returncode != 0:
            skip(f"no overlay of the root can be mounted: {can.stderr.strip()}")
        make_packages(folder)
        done = subprocess.run([*namespaces, sys.executable, "-B", __file__, *sys.argv[1:4], folder],
                              timeout=LIMIT, check=False)
        sys.exit(done.returncode)


main()
