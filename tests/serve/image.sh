#!/usr/bin/env bash
# Make the file system of deploy/Dockerfile in the empty folder ROOT, and run a command in it as its user;
# or, with `build` in place of the command, run the steps that build it, once for all commands.
#
# test_container.py runs it in a mount namespace, with which everything goes. Packages come from the
# environment of the tests, not from a registry. BASE: Python's own folder; PACKAGES: its packages; SOURCE:
# our package; KERNELS: code compiled earlier, which `fmpair compile` takes from there, and where it keeps
# new code; BUILT: the folder of our package in the image; WRITABLE: the only folder that the command may
# write to, beside a temporary one of a megabyte.
set -euo pipefail

shown() {  # show something of this machine in the image; $3: ro or rw
  mkdir -p "$ROOT$2"
  mount --bind "$1" "$ROOT$2"
  mount -o "remount,bind,$3" "$ROOT$2"
}
mount -t tmpfs -o mode=755 tmpfs "$ROOT"
for folder in /usr /etc "$BASE"; do shown "$folder" "$folder" ro; done
for name in bin sbin lib lib64; do
  if [[ -L /$name ]]; then cp -P "/$name" "$ROOT/"; elif [[ -d /$name ]]; then shown "/$name" "/$name" ro; fi
done
shown "$PACKAGES" /opt/packages ro
mkdir -p "$ROOT"/{proc,dev,tmp,run/secrets} "$ROOT$WRITABLE"
mount -t proc proc "$ROOT/proc"
for device in null urandom; do
  touch "$ROOT/dev/$device"
  mount --bind "/dev/$device" "$ROOT/dev/$device"
done
mount -t tmpfs -o size=1m,mode=1777 tmpfs "$ROOT/tmp"
clean=(env -i "PATH=/opt/fmpair/bin:/usr/bin:/bin" PYTHONPATH=/opt/fmpair:/opt/packages PYTHONUNBUFFERED=1)

if [[ $1 == build ]]; then # sources, a command, kernels beside the sources
  shown "$BUILT" /opt/fmpair rw
  shown "$KERNELS" /opt/kernels rw
  mkdir "$BUILT/bin"
  cp -r "$SOURCE" "$BUILT/fmpair"
  find "$BUILT" -name __pycache__ -prune -exec rm -rf {} +
  printf '#!/bin/sh\nexec %s -m fmpair "$@"\n' "$PYTHON" >"$BUILT/bin/fmpair"
  chmod 755 "$BUILT" "$BUILT/bin/fmpair"
  chroot "$ROOT" "$PYTHON" -m compileall -q /opt/fmpair/fmpair
  chroot "$ROOT" "${clean[@]}" FMPAIR_CACHE=/opt/kernels sh -c "$COMPILE" >&2
  exit
fi

shown "$BUILT" /opt/fmpair ro
mount -t tmpfs -o size=64m,uid=1000,mode=755 tmpfs "$ROOT$WRITABLE"
install -o 1000 -m 644 "$MODEL" "$ROOT$WRITABLE/model.fmpair"
install -o 1000 -m 400 "$KEYS" "$ROOT/run/secrets/keys"
mount -o remount,ro "$ROOT"
cd /
echo "image made" >&2
exec chroot "$ROOT" setpriv --reuid=1000 --regid=1000 --clear-groups --bounding-set=-all --no-new-privs \
  "${clean[@]}" "$@"
