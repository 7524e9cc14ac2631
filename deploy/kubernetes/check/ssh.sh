# Runs a command as the launcher of an MPIJob does, with the configuration of the image, and with two workers, worker-0 and
# worker-1. As root, in a network namespace of its own:
#
#	unshare --net --mount bash -e ssh.sh CONFIG IMAGE KEYS COMMAND...
#
# CONFIG is the folder with ssh_config and sshd_config, IMAGE the one with the programs. KEYS is "same", or "other" if another host
# answers than one of the job.
config=$(realpath "$1") image=$(realpath "$2") keys=$3
shift 3
ip link set lo up
mkdir -p /root/.ssh /run/sshd
for dir in /root/.ssh /etc/ssh/ssh_config.d /etc/ssh/sshd_config.d; do
	mount -t tmpfs -o mode=0755 tmpfs "$dir" # of this mount namespace
done
mount --bind "$image" /usr/local/bin
cp "$config/ssh_config" /etc/ssh/ssh_config.d/ibrun.conf
cp "$config/sshd_config" /etc/ssh/sshd_config.d/ibrun.conf

# What the operator makes: keys, whose names say RSA whatever they are, the names of the workers, and the host file.
ssh-keygen -q -t ecdsa -b 521 -N '' -C '' -f /root/.ssh/id_rsa
cp /root/.ssh/id_rsa.pub /root/.ssh/authorized_keys
chmod 1777 /root/.ssh
printf '127.0.0.1 localhost\n127.0.0.2 worker-0\n127.0.0.3 worker-1\n' >/root/.ssh/hosts
mount --bind /root/.ssh/hosts /etc/hosts
printf 'worker-0:2\nworker-1:2\n' >/root/.ssh/hostfile
export K_MPI_JOB_ROLE=launcher HYDRA_HOST_FILE=/root/.ssh/hostfile

key=/root/.ssh/id_rsa
if [ "$keys" = other ]; then
	key=/root/.ssh/other
	ssh-keygen -q -t ecdsa -b 521 -N '' -f "$key"
	sed -i "s|^HostKey .*|HostKey $key|" /etc/ssh/sshd_config.d/ibrun.conf
fi
: >/root/.ssh/log
/usr/sbin/sshd -De 2>/root/.ssh/log &
trap 'kill $!' EXIT
until grep -q 'listening on 0.0.0.0' /root/.ssh/log; do
	kill -0 $! # otherwise it has failed
	sleep 0.02
done
"$@"
