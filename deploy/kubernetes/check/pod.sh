# Runs a command as two pods of Kubernetes would, on this machine: each in a root directory made from scratch, with its own
# processes and host name, and nothing but /proc, /sys, /dev, /tmp and the secret. As root, in a network namespace of its own:
#
#	unshare --net --mount bash -e pod.sh IMAGE USER SECRET MODE HOST KERNEL ARGUMENT...
#
# MODE is the mode of the secret, HOST the name of the first pod. KERNEL says which files of the kernel there are: "all" or "few",
# which is without /sys and with those files of /proc only that belong to processes of the user. $(JOB_COMPLETION_INDEX) is
# replaced in ARGUMENT, and 0.0.0.0 by an address of each pod, as if each had its own network.
# The exit code is that of the first pod, plus 100 times that of the second one.
image=$1 user=$2 secret=$3 mode=$4 host=$5 kernel=$6
shift 6
ip link set lo up
roots=$(mktemp -d)
mount -t tmpfs tmpfs "$roots" # of this mount namespace
trap 'cd /; umount -l "$roots"; rmdir "$roots"' EXIT

# pod runs the pod with a number.
pod() {
	local index=$1 root=$roots/$1
	shift
	set -- "${@//\$(JOB_COMPLETION_INDEX)/$index}"
	set -- "${@//0.0.0.0/127.0.0.$((index + 2))}"
	cp -a "$image" "$root"
	mkdir -p "$root"/{proc,sys,dev/shm,etc,tmp,run/secrets/ibrun}
	echo "127.0.0.1 localhost $host" >"$root/etc/hosts"
	install -o root -g "$user" -m "$mode" "$secret" "$root/run/secrets/ibrun/..data"
	ln -s ..data "$root/run/secrets/ibrun/secret" # as Kubernetes does
	unshare --mount --pid --uts --fork --kill-child bash -ec '
		root=$1 index=$2 user=$3 kernel=$4
		shift 4
		hostname "pi-$index"
		mount --bind "$root" "$root"
		if [ "$kernel" = all ]; then
			mount -t proc proc "$root/proc"
			mount -t sysfs -o ro sysfs "$root/sys"
		else
			mount -t proc -o subset=pid,hidepid=invisible proc "$root/proc"
		fi
		for device in null zero full random urandom; do
			touch "$root/dev/$device"
			mount --bind "/dev/$device" "$root/dev/$device"
		done
		mount -t tmpfs -o mode=1777,size=64m tmpfs "$root/dev/shm"
		mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
		mount -o remount,bind,ro "$root"
		exec env -i JOB_COMPLETION_INDEX="$index" PATH=/ IBRUN_TCP_INTERFACES=lo \
			"$(command -v chroot)" --userspec="$user:$user" --groups="$user" "$root" /ibrun "$@"
	' pod "$root" "$index" "$user" "$kernel" "$@"
}
pod 1 "$@" &
status=0
pod 0 "$@" || status=$?
wait $! || status=$((status + 100 * $?))
exit $status
