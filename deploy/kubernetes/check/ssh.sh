# Runs sshd and ssh as the pods of an MPIJob do, with the configuration of the image. As root, in a network namespace of its own:
#
#	unshare --net --mount bash -e ssh.sh CONFIG KEYS COMMAND
#
# CONFIG is the folder with ssh_config and sshd_config. KEYS is "same", or "other" if another host answers than one of the job.
config=$(realpath "$1") keys=$2
shift 2
ip link set lo up
mkdir -p /root/.ssh /run/sshd
for dir in /root/.ssh /etc/ssh/ssh_config.d /etc/ssh/sshd_config.d; do
	mount -t tmpfs -o mode=0755 tmpfs "$dir" # of this mount namespace
done
cp "$config/ssh_config" /etc/ssh/ssh_config.d/ibrun.conf
cp "$config/sshd_config" /etc/ssh/sshd_config.d/ibrun.conf
ssh-keygen -q -t ecdsa -b 521 -N '' -C '' -f /root/.ssh/id_rsa # as the operator does, whatever the name says
cp /root/.ssh/id_rsa.pub /root/.ssh/authorized_keys
chmod 1777 /root/.ssh
if [ "$keys" = other ]; then
	ssh-keygen -q -t ecdsa -b 521 -N '' -f /root/.ssh/other
	/usr/sbin/sshd -De -h /root/.ssh/other -o HostKey=/root/.ssh/other 2>/root/.ssh/log &
else
	/usr/sbin/sshd -De 2>/root/.ssh/log &
fi
trap 'kill $!; cat /root/.ssh/log >&2' EXIT
until grep -q 'listening on 0.0.0.0' /root/.ssh/log; do
	kill -0 $! # otherwise it has failed
	sleep 0.02
done
ssh 127.0.0.1 "$@"
