#!/bin/sh
# What a container runs: one of three services by its name, or any command. No service starts by itself.
set -eu

die() {
  echo "$*" >&2
  exit 2
}

serve_ssh() { # of the container's user, by key alone
  keys=${SSH_KEYS:-/keys/authorized_keys}
  host_key=$HOME/.host-key
  [ -x /usr/sbin/sshd ] || die "this image has no SSH: build it with --build-arg SSH=yes"
  { [ -r "$keys" ] && [ -s "$keys" ]; } || die "$keys cannot be read, or is empty: mount your public keys there"
  [ -f "$host_key" ] || ssh-keygen -q -t ed25519 -N '' -f "$host_key"
  exec /usr/sbin/sshd -D -e -f /dev/null -p 2222 -h "$host_key" \
    -o AuthorizedKeysFile="$keys" -o StrictModes=no -o PidFile=none -o UsePAM=no \
    -o PasswordAuthentication=no -o KbdInteractiveAuthentication=no \
    -o PermitRootLogin=no -o SetEnv="PATH=$PATH" -o Subsystem="sftp internal-sftp" "$@"
}

service=${1:-}
case $service in serve-*) shift ;; esac
case $service in
  serve-lab) exec jupyter lab --ip=0.0.0.0 --port=8888 --no-browser "$@" ;;
  serve-tensorboard) exec tensorboard --bind_all --port=6006 --logdir=/work "$@" ;;
  serve-ssh) serve_ssh "$@" ;;
  serve-*) die "$service: serve-lab, serve-tensorboard or serve-ssh" ;;
  *) exec "$@" ;;
esac
