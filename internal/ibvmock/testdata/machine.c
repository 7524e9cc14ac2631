/*
 * A program beside the library: it makes the devices of the library look like devices of this machine. sysfs.go calls it.
 *
 *	machine hold                    keeps a network namespace until its input ends
 *	machine run PID TREE COMMAND    runs a command in the namespace of that process, and with the tree of devices unless it is ""
 *	machine tree TREE               writes the tree of the devices of IBVMOCK_DEVICES, or writes its files again
 *	machine set DEVICE WHAT VALUE   calls ibvmock_set_port
 *	machine pkey DEVICE INDEX KEY   calls ibvmock_set_pkey
 *	machine gid DEVICE INDEX        removes an address by ibvmock_set_gid
 *
 * A tree is a directory with sys/class/infiniband and sys/class/infiniband_verbs, and an empty directory mnt.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PORT = 1, MAX_GIDS = 256 };

extern int ibvmock_start(void);
extern int ibvmock_set_port(const char *device, const char *what, int64_t v);
extern int ibvmock_set_pkey(const char *device, uint32_t index, uint32_t key);
extern int ibvmock_set_gid(const char *device, uint32_t index, const union ibv_gid *gid, uint32_t type);
extern const char *ibvmock_driver(const char *device);

static char path[2][2 * PATH_MAX];

static void fail(const char *what, const char *on)
{
	fprintf(stderr, "machine: %s %s: %s\n", what, on, strerror(errno));
	exit(125);
}

static void check(int result, const char *what, const char *on)
{
	if (result < 0)
		fail(what, on);
}

/* Ends the program unless a call has returned 0, which returns an errno. */
static void check_call(int error, const char *what, const char *on)
{
	errno = error;
	check(error ? -1 : 0, what, on);
}

/* Formats a path. Two results are valid at a time. */
static __attribute__((format(printf, 1, 2))) const char *at(const char *format, ...)
{
	static int next;
	char *p = path[next ^= 1];
	va_list args;

	va_start(args, format);
	vsnprintf(p, sizeof path[0], format, args);
	va_end(args);
	return p;
}

static void make_dir(const char *dir)
{
	if (mkdir(dir, 0755) && errno != EEXIST)
		fail("create", dir);
}

/* Writes a file in one write, so that a reader never sees an empty one. It creates the directories above. */
static __attribute__((format(printf, 3, 4))) void put(const char *dir, const char *name, const char *format, ...)
{
	char text[512], file[PATH_MAX];
	va_list args;

	snprintf(file, sizeof file, "%s/%s", dir, name);
	for (char *slash = file; (slash = strchr(slash + 1, '/'));) {
		*slash = 0;
		make_dir(file);
		*slash = '/';
	}
	va_start(args, format);
	int n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	memset(text + n, 0, sizeof text - (size_t)n);
	int fd = open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	check(fd, "create", file);
	check((int)write(fd, text, (size_t)n), "write", file);
	check(ftruncate(fd, n), "write", file);
	close(fd);
}

static void put_gids(struct ibv_context *x, const char *dir, const struct ibv_port_attr *p, unsigned number)
{
	static const char *const types[] = {"IB/RoCE v1", "IB/RoCE v1", "RoCE v2"};
	struct ibv_gid_entry e[MAX_GIDS];
	ssize_t used = ibv_query_gid_table(x, e, MAX_GIDS, 0);

	check_call(used < 0 ? (int)-used : 0, "query", "the GID table");
	for (int i = 0; i < p->gid_tbl_len; i++) {
		union ibv_gid gid = {0};
		char name[64];

		unlink(at("%s/gid_attrs/types/%d", dir, i)); /* of an address that was removed */
		unlink(at("%s/gid_attrs/ndevs/%d", dir, i));
		for (ssize_t k = 0; k < used; k++) {
			if ((int)e[k].gid_index != i)
				continue;
			gid = e[k].gid;
			snprintf(name, sizeof name, "gid_attrs/types/%d", i);
			put(dir, name, "%s\n", types[e[k].gid_type]);
			snprintf(name, sizeof name, "gid_attrs/ndevs/%d", i);
			if (p->link_layer == IBV_LINK_LAYER_ETHERNET)
				put(dir, name, "rdma%u\n", number);
		}
		const uint8_t *g = gid.raw;
		snprintf(name, sizeof name, "gids/%d", i);
		put(dir, name, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", g[0], g[1], g[2], g[3],
		    g[4], g[5], g[6], g[7], g[8], g[9], g[10], g[11], g[12], g[13], g[14], g[15]);
	}
}

/* Writes the rate as the kernel does: "100 Gb/sec (4X EDR)". The width counts 1, 4, 8, 12 and 2 lanes by bits. */
static void put_rate(const char *dir, const struct ibv_port_attr *p)
{
	static const struct { uint8_t speed; int mbits; const char *name; } speeds[] = {
		{1, 2500, " SDR"}, {2, 5000, " DDR"}, {4, 10000, " QDR"}, {8, 10000, " FDR10"}, {16, 14000, " FDR"}, {32, 25000, " EDR"},
		{64, 50000, " HDR"}, {128, 100000, " NDR"},
	};
	int lanes = p->active_width == 1 ? 1 : p->active_width == 2 ? 4 : p->active_width == 4 ? 8 : p->active_width == 8 ? 12 : 2;

	for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++)
		if (speeds[i].speed == p->active_speed)
			put(dir, "rate", "%d%s Gb/sec (%dX%s)\n", lanes * speeds[i].mbits / 1000,
			    lanes * speeds[i].mbits % 1000 ? ".5" : "", lanes, speeds[i].name);
}

/* Writes the interface of an Ethernet port, with the usual MTU of an interface whose RDMA packets have that size. */
static void put_interface(const char *dir, enum ibv_mtu mtu, unsigned number)
{
	char name[64];

	snprintf(name, sizeof name, "device/net/rdma%u/mtu", number);
	put(dir, name, "%d\n", mtu == IBV_MTU_4096 ? 9000 : mtu == IBV_MTU_2048 ? 4000 : 1500);
	snprintf(name, sizeof name, "device/net/rdma%u/dev_port", number);
	put(dir, name, "0\n");
}

static void put_port(struct ibv_context *x, const char *device, unsigned number)
{
	static const char *const states[] = {"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"};
	struct ibv_port_attr p;
	char dir[PATH_MAX];

	snprintf(dir, sizeof dir, "%s/ports/%d", device, PORT);
	check_call(ibv_query_port(x, PORT, &p), "query", "the port");
	if (p.link_layer == IBV_LINK_LAYER_ETHERNET)
		put_interface(device, p.active_mtu, number);
	put(dir, "state", "%d: %s\n", p.state, states[p.state]);
	put(dir, "phys_state", "%s\n", p.phys_state == 5 ? "5: LinkUp" : "3: Disabled");
	put(dir, "link_layer", "%s\n", p.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
	put(dir, "lid", "0x%x\n", p.lid);
	put(dir, "lid_mask_count", "%d\n", p.lmc);
	put(dir, "sm_lid", "0x%x\n", p.sm_lid);
	put(dir, "sm_sl", "%d\n", p.sm_sl);
	put(dir, "cap_mask", "0x%08x\n", p.port_cap_flags);
	put_rate(dir, &p);
	put_gids(x, dir, &p, number);
	for (int i = 0; i < p.pkey_tbl_len; i++) {
		char name[32];
		__be16 key = 0;

		check(ibv_query_pkey(x, PORT, i, &key), "query", "a partition");
		snprintf(name, sizeof name, "pkeys/%d", i);
		put(dir, name, "0x%04x\n", be16toh(key));
	}
}

static void put_guid(const char *dir, const char *name, uint64_t g)
{
	put(dir, name, "%04x:%04x:%04x:%04x\n", (unsigned)(g >> 48), (unsigned)(g >> 32 & 0xffff), (unsigned)(g >> 16 & 0xffff),
	    (unsigned)(g & 0xffff));
}

/* The low 16 bits of the GUID are the number of the device in its network. Its interface, if it has one, is rdmaNUMBER. */
static void put_device(const char *tree, struct ibv_device *d)
{
	struct ibv_context *x = ibv_open_device(d);
	struct ibv_device_attr a;
	char dir[PATH_MAX];

	if (!x && errno == EIO)
		return; /* lost */
	check(x ? 0 : -1, "open", d->name);
	check_call(ibv_query_device(x, &a), "query", d->name);
	snprintf(dir, sizeof dir, "%s/sys/class/infiniband/%s", tree, d->name);
	put(dir, "node_type", "1: CA\n");
	put(dir, "node_desc", "%s\n", d->name);
	put(dir, "fw_ver", "%s\n", a.fw_ver);
	put_guid(dir, "node_guid", be64toh(a.node_guid));
	put_guid(dir, "sys_image_guid", be64toh(a.sys_image_guid));
	put(dir, "device/uevent", "DRIVER=%s\n", ibvmock_driver(d->name));
	put(dir, "device/numa_node", "-1\n");
	put(dir, "device/vendor", "0x%04x\n", a.vendor_id);
	put(dir, "device/device", "0x%04x\n", a.vendor_part_id);
	put_port(x, dir, (unsigned)(be64toh(a.node_guid) & 0xffff));
	snprintf(dir, sizeof dir, "%s/sys/class/infiniband_verbs/%s", tree, d->dev_name);
	put(dir, "ibdev", "%s\n", d->name);
	put(dir, "abi_version", "1\n");
	put(dir, "dev", "1:3\n"); /* run binds /dev/null there */
	ibv_close_device(x);
}

static void write_tree(const char *tree)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	check(list ? 0 : -1, "list", "the devices");
	put(tree, "sys/class/infiniband_verbs/abi_version", "6\n");
	make_dir(at("%s/sys/class/infiniband", tree));
	for (int i = 0; i < n; i++)
		put_device(tree, list[i]);
	ibv_free_device_list(list);
	make_dir(at("%s/mnt", tree));
}

static void write_file(const char *file, const char *text)
{
	int fd = open(file, O_WRONLY | O_CLOEXEC);

	check(fd, "open", file);
	check((int)write(fd, text, strlen(text)), "write", file);
	close(fd);
}

/* Without root, a user namespace in which this user is root owns the network namespace. */
static void hold(void)
{
	bool root = geteuid() == 0;
	char users[64], groups[64], c;

	snprintf(users, sizeof users, "0 %u 1", geteuid());
	snprintf(groups, sizeof groups, "0 %u 1", getegid());
	check(unshare(CLONE_NEWNET | (root ? 0 : CLONE_NEWUSER)), "create", "a network namespace");
	if (!root) {
		write_file("/proc/self/uid_map", users);
		write_file("/proc/self/setgroups", "deny");
		write_file("/proc/self/gid_map", groups);
	}
	if (puts("ready") < 0 || fflush(stdout))
		fail("write", "standard output");
	while (read(0, &c, 1) > 0)
		continue;
}

static void enter(const char *pid, const char *kind, int type)
{
	int fd = open(at("/proc/%s/ns/%s", pid, kind), O_RDONLY | O_CLOEXEC);

	check(fd, "open the namespace of", pid);
	check(setns(fd, type), "enter the namespace of", pid);
	close(fd);
}

static void bind_to(const char *from, const char *to)
{
	check(mount(from, to, NULL, MS_BIND | MS_REC, NULL), "bind", to);
}

/* Makes a directory to of what is in from, except names that begin with infiniband. */
static void copy_dir(const char *from, const char *to)
{
	DIR *d = opendir(from);
	struct stat st;

	check(d ? 0 : -1, "open", from);
	make_dir(to);
	for (struct dirent *e; (e = readdir(d));) {
		char source[PATH_MAX], copy[PATH_MAX], link[PATH_MAX] = "";

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strncmp(e->d_name, "infiniband", 10))
			continue;
		snprintf(source, sizeof source, "%s/%s", from, e->d_name);
		snprintf(copy, sizeof copy, "%s/%s", to, e->d_name);
		if (lstat(source, &st))
			continue; /* it was removed meanwhile */
		if (S_ISLNK(st.st_mode)) {
			check((int)readlink(source, link, sizeof link - 1), "read", source);
			check(symlink(link, copy), "create", copy);
			continue;
		}
		if (S_ISDIR(st.st_mode))
			make_dir(copy);
		else
			check(mknod(copy, S_IFREG | 0600, 0), "create", copy);
		bind_to(source, copy);
	}
	closedir(d);
}

static void mount_sys(const char *tree)
{
	static const char *const classes[] = {"infiniband", "infiniband_verbs"};

	make_dir(at("%s/mnt/sys", tree));
	check(mount("sysfs", at("%s/mnt/sys", tree), "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mount", "sysfs");
	mount("/sys/fs/cgroup", at("%s/mnt/sys/fs/cgroup", tree), NULL, MS_BIND | MS_REC, NULL); /* it need not exist */
	copy_dir(at("%s/mnt/sys/class", tree), at("%s/mnt/class", tree));
	for (int i = 0; i < 2; i++) {
		make_dir(at("%s/mnt/class/%s", tree, classes[i]));
		bind_to(at("%s/sys/class/%s", tree, classes[i]), at("%s/mnt/class/%s", tree, classes[i]));
	}
	bind_to(at("%s/mnt/class", tree), at("%s/mnt/sys/class", tree));
	bind_to(at("%s/mnt/sys", tree), "/sys");
}

static void mount_dev(const char *tree)
{
	char dir[PATH_MAX];

	copy_dir("/dev", at("%s/mnt/dev", tree));
	make_dir(at("%s/mnt/dev/infiniband", tree));
	snprintf(dir, sizeof dir, "%s/sys/class/infiniband_verbs", tree);
	DIR *d = opendir(dir);
	check(d ? 0 : -1, "open", dir);
	for (struct dirent *e; (e = readdir(d));) {
		if (strncmp(e->d_name, "uverbs", 6))
			continue;
		const char *file = at("%s/mnt/dev/infiniband/%s", tree, e->d_name);
		check(mknod(file, S_IFREG | 0600, 0), "create", file);
		bind_to("/dev/null", file);
	}
	closedir(d);
	bind_to(at("%s/mnt/dev", tree), "/dev");
}

/*
 * Makes sockets of NETLINK_RDMA fail as in a kernel without RDMA. Otherwise a kernel that has RDMA would say that it does not know
 * the devices of the tree.
 */
static void refuse_netlink(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 5),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, NETLINK_RDMA, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof code / sizeof *code, code};

	check(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0), "install", "a filter");
}

static void run_in(const char *pid, const char *tree, char **command)
{
	if (geteuid() != 0)
		enter(pid, "user", CLONE_NEWUSER);
	enter(pid, "net", CLONE_NEWNET);
	if (*tree) {
		check(unshare(CLONE_NEWNS), "create", "a mount namespace");
		check(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "change", "the mounts");
		check(mount("tmpfs", at("%s/mnt", tree), "tmpfs", 0, NULL), "mount", "a tmpfs");
		mount_sys(tree);
		mount_dev(tree);
		refuse_netlink();
	}
	execvp(command[0], command);
	fail("start", command[0]);
}

/* Returns 0, or -1 for a wrong argument. */
static int change(int argc, char **argv)
{
	const char *what = argv[1], *device = argv[2];

	if (!strcmp(what, "set") && argc == 5)
		return ibvmock_set_port(device, argv[3], atoll(argv[4]));
	if (!strcmp(what, "pkey") && argc == 5)
		return ibvmock_set_pkey(device, (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]));
	if (!strcmp(what, "gid") && argc == 4)
		return ibvmock_set_gid(device, (uint32_t)atoi(argv[3]), NULL, 0);
	return -1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (!strcmp(what, "hold")) {
		hold();
	} else if (!strcmp(what, "run") && argc > 4) {
		run_in(argv[2], argv[3], argv + 4);
	} else if (!strcmp(what, "tree") && argc == 3) {
		write_tree(argv[2]);
	} else if (argc > 3) {
		check_call(ibvmock_start(), "attach to", "the network");
		check_call(change(argc, argv) ? EINVAL : 0, "change", argv[2]);
	} else {
		fprintf(stderr, "machine: see the comment in machine.c\n");
		return 125;
	}
	return 0;
}
