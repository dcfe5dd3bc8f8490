#!/bin/sh
# Runs a script in a copy of this machine as it is after a boot: changes of files stay in memory, and are gone with the last
# process. Called in namespaces of its own, as process 1: machine.sh DIRECTORY, which holds `inside` and what it needs.
set -e
ip link set lo up
mount -t tmpfs none /mnt
mkdir /mnt/upper /mnt/work /mnt/root
mount -t overlay none -o lowerdir=/,upperdir=/mnt/upper,workdir=/mnt/work /mnt/root
cd /mnt/root
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc none proc
mount -t tmpfs none run
mount -t tmpfs none tmp
mkdir run/lock
chmod 1777 tmp run/lock
cp -r "$1/." srv/
# The shell becomes process 1, and reaps whatever daemons leave.
exec chroot . env -i HOME=/srv PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin /bin/bash -e /srv/inside
