/* Devices: the list, opening, and what they report. */
#include "mock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A device as this process sees it. */
struct local {
	struct ibv_device ibv;
	struct device *device;
};

static struct local locals[MAX_DEVICES];
static int local_count;

static uint64_t hash(const char *a, const char *b)
{
	uint64_t h = 0xcbf29ce484222325;

	for (const char *s = a; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3;
	h = (h ^ '/') * 0x100000001b3;
	for (const char *s = b; *s; s++)
		h = (h ^ (uint8_t)*s) * 0x100000001b3;
	return h;
}

static void set_gid(struct device *d, int i, uint64_t high, uint64_t low, uint32_t type)
{
	d->gids[i].gid.global.subnet_prefix = htobe64(high);
	d->gids[i].gid.global.interface_id = htobe64(low);
	d->gids[i].type = type;
	d->gids[i].used = true;
}

/* Gives a new device its addresses. Its number makes them unique within the network. */
static void init_device(struct device *d, const char *node, const char *name, int profile, int fabric)
{
	const struct profile *p = profile_at(profile);
	uint64_t number = (uint64_t)net->device_count + 1;

	snprintf(d->name, sizeof d->name, "%s", name);
	snprintf(d->node, sizeof d->node, "%s", node);
	d->profile_index = profile;
	d->fabric = fabric;
	d->guid = (hash(node, name) & ~(uint64_t)0xffff) | number;
	d->state = IBV_PORT_ACTIVE;
	d->active_mtu = p->active_mtu;
	memcpy(d->pkeys, p->pkeys, sizeof p->pkeys);
	if (!p->roce) {
		d->lid = (uint16_t)(0x10 * number);
		set_gid(d, 0, 0xfe80000000000000, d->guid, IBV_GID_TYPE_IB);
		return;
	}
	uint64_t ip = 0xffff00000000 | 0x0a000000 | (uint64_t)(fabric & 0xff) << 16 | number; /* ::ffff:10.FABRIC.0.NUMBER */
	for (int i = 0; i < 2; i++) {
		uint32_t type = i ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
		set_gid(d, i, 0xfe80000000000000, d->guid, type);
		set_gid(d, i + 2, 0, ip, type);
	}
}

static struct device *find_device(const char *node, const char *name)
{
	for (int i = 0; i < net->device_count; i++)
		if (!strcmp(net->devices[i]->node, node) && !strcmp(net->devices[i]->name, name))
			return net->devices[i];
	return NULL;
}

static struct device *add_device(const char *node, const char *name, int profile, int fabric)
{
	struct device *d = find_device(node, name);

	if (d)
		return d;
	if (net->device_count == MAX_DEVICES || !(d = net_alloc(sizeof *d)))
		return NULL;
	init_device(d, node, name, profile, fabric);
	net->devices[net->device_count++] = d;
	net->epoch++;
	return d;
}

static void add_local(struct device *d)
{
	struct local *l = &locals[local_count];

	for (int i = 0; i < local_count; i++)
		if (locals[i].device == d)
			return;
	if (local_count == MAX_DEVICES)
		return;
	l->device = d;
	l->ibv.node_type = IBV_NODE_CA;
	l->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(l->ibv.name, sizeof l->ibv.name, "%.63s", d->name);
	snprintf(l->ibv.dev_name, sizeof l->ibv.dev_name, "uverbs%d", local_count);
	snprintf(l->ibv.dev_path, sizeof l->ibv.dev_path, "/sys/class/infiniband_verbs/uverbs%d", local_count);
	snprintf(l->ibv.ibdev_path, sizeof l->ibv.ibdev_path, "/sys/class/infiniband/%s", d->name);
	local_count++;
}

/*
 * Adds the devices of a list, NAME=PROFILE[@FABRIC] with commas between, to those of this process. Devices that exist stay as they
 * are. The caller holds net->lock.
 */
void configure_devices(const char *list)
{
	const char *node = getenv("IBVMOCK_NODE");
	char *copy = strdup(list), *rest = copy;

	for (char *entry; copy && (entry = strsep(&rest, ","));) {
		char *profile = strchr(entry, '='), *fabric = strchr(entry, '@');
		if (!profile || !*entry)
			continue;
		*profile++ = 0;
		if (fabric)
			*fabric++ = 0;
		int p = profile_index(profile);
		struct device *d = p < 0 ? NULL : add_device(node ? node : "", entry, p, fabric ? atoi(fabric) : 0);
		if (d)
			add_local(d);
		else
			fprintf(stderr, "ibvmock: no device %s: no profile %s, or too many devices\n", entry, profile);
	}
	free(copy);
}

struct device *local_device(const char *name)
{
	for (int i = 0; i < local_count; i++)
		if (!strcmp(locals[i].device->name, name))
			return locals[i].device;
	return NULL;
}

EXPORT struct ibv_device **ibv_get_device_list(int *n)
{
	int refused = net_attach() ? errno : enter_call(CALL_GET_DEVICE_LIST, NULL);
	struct ibv_device **list = refused ? NULL : calloc(MAX_DEVICES + 1, sizeof *list);

	if (!list) {
		set_errno(refused ? refused : ENOMEM);
		return NULL;
	}
	net_lock();
	for (int i = 0; i < local_count; i++)
		list[i] = &locals[i].ibv;
	if (n)
		*n = local_count;
	net_unlock();
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list) { free(list); }
EXPORT const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

struct device *device_of(struct ibv_context *x) { return containerof(x, struct context, verbs.context)->device; }

/* Returns EIO if the device is lost. */
int device_error(struct ibv_context *x) { return device_of(x)->lost ? EIO : 0; }

static int query_port(struct ibv_context *x, uint8_t port, struct ibv_port_attr *a, size_t size);
static int query_device_ex(struct ibv_context *x, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a,
			   size_t size);

static void set_ops(struct verbs_context *v)
{
	struct ibv_context_ops *ops = &v->context.ops;

	v->sz = sizeof *v;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	ops->alloc_mw = mock_alloc_mw;
	ops->bind_mw = mock_bind_mw;
	ops->dealloc_mw = mock_dealloc_mw;
	ops->poll_cq = mock_poll_cq;
	ops->req_notify_cq = mock_req_notify_cq;
	ops->post_srq_recv = mock_post_srq_recv;
	ops->post_send = mock_post_send;
	ops->post_recv = mock_post_recv;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *dev)
{
	struct local *l = containerof(dev, struct local, ibv);
	int refused = enter_call(CALL_OPEN_DEVICE, l->device);

	if (!refused && l->device->lost)
		refused = EIO;
	if (refused) {
		set_errno(refused);
		return NULL;
	}
	net_lock();
	struct context *x = net_alloc(sizeof *x);
	if (!x)
		errno = ENOMEM;
	if (x && !bell_open(&x->bell)) {
		set_ops(&x->verbs);
		x->device = l->device;
		x->verbs.context.device = dev;
		x->verbs.context.cmd_fd = -1;
		x->verbs.context.async_fd = x->bell.fd;
		x->verbs.context.num_comp_vectors = 4;
		pthread_mutex_init(&x->verbs.context.mutex, NULL);
		x->next = x->device->contexts;
		x->device->contexts = x;
	} else if (x) {
		net_free(x, sizeof *x);
		x = NULL;
	}
	net_unlock();
	return x ? &x->verbs.context : NULL;
}

EXPORT int ibv_close_device(struct ibv_context *ctx)
{
	struct context *x = containerof(ctx, struct context, verbs.context);

	int refused = enter_call(CALL_CLOSE_DEVICE, x->device);

	if (refused) {
		set_errno(refused);
		return -1;
	}
	net_lock();
	for (struct context **p = &x->device->contexts; *p; p = &(*p)->next)
		if (*p == x) {
			*p = x->next;
			break;
		}
	bell_close(&x->bell);
	while (x->events) {
		struct event *e = x->events;
		x->events = e->next;
		net_free(e, sizeof *e);
	}
	net_free(x, sizeof *x);
	net_unlock();
	return 0;
}

EXPORT int ibv_query_device(struct ibv_context *x, struct ibv_device_attr *a)
{
	const struct device *d = device_of(x);
	const struct profile *p = profile_of(d);
	int refused = enter_call(CALL_QUERY_DEVICE, device_of(x));

	if (refused || (refused = device_error(x)))
		return refused;
	*a = (struct ibv_device_attr){
		.node_guid = htobe64(d->guid), .sys_image_guid = htobe64(d->guid), .max_mr_size = UINT64_MAX, .page_size_cap = ~0xfffull,
		.vendor_id = p->vendor_id, .vendor_part_id = p->vendor_part_id, .max_qp = 131072, .max_qp_wr = p->max_qp_wr,
		.device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID, .max_sge = p->max_sge,
		.max_sge_rd = p->max_sge_rd, .max_cq = 65536, .max_cqe = p->max_cqe, .max_mr = MAX_KEYS - 1, .max_pd = 65536,
		.max_qp_rd_atom = p->max_rd, .max_res_rd_atom = p->max_rd * 131072, .max_qp_init_rd_atom = p->max_init_rd,
		.atomic_cap = p->atomics, .max_mw = p->max_mw, .max_mcast_grp = 8192, .max_mcast_qp_attach = 240,
		.max_total_mcast_qp_attach = 65536, .max_ah = 65536, .max_srq = p->max_srq, .max_srq_wr = p->max_srq_wr,
		.max_srq_sge = p->max_srq_sge, .max_pkeys = (uint16_t)p->pkey_entries, .local_ca_ack_delay = 16, .phys_port_cnt = 1,
	};
	snprintf(a->fw_ver, sizeof a->fw_ver, "%s", p->firmware);
	return 0;
}

static int query_device_ex(struct ibv_context *x, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a,
			   size_t size)
{
	if (size < sizeof a->orig_attr || (in && in->comp_mask))
		return EINVAL;
	memset(a, 0, size);
	return ibv_query_device(x, &a->orig_attr);
}

static int query_port(struct ibv_context *x, uint8_t port, struct ibv_port_attr *a, size_t size)
{
	const struct device *d = device_of(x);
	const struct profile *p = profile_of(d);
	int refused = enter_call(CALL_QUERY_PORT, device_of(x));

	if (refused || (refused = device_error(x)))
		return refused;
	if (port != PORT)
		return EINVAL;
	net_lock();
	struct ibv_port_attr all = {
		.state = d->state, .max_mtu = p->max_mtu, .active_mtu = d->active_mtu, .gid_tbl_len = p->roce ? MAX_GIDS : 8,
		.max_msg_sz = 1u << 30, .pkey_tbl_len = (uint16_t)p->pkey_entries, .lid = d->lid, .sm_lid = p->roce ? 0 : 1, .lmc = p->lmc,
		.max_vl_num = 4, .subnet_timeout = 18, .active_width = 2, .active_speed = 64,
		.phys_state = d->state == IBV_PORT_ACTIVE ? 5 : 3, .link_layer = p->link_layer,
		.flags = p->grh_required || p->roce ? IBV_QPF_GRH_REQUIRED : 0,
	};
	net_unlock();
	memcpy(a, &all, size < sizeof all ? size : sizeof all);
	return 0;
}

/* Writes as many bytes as the struct had when the symbol got its version. */
EXPORT int ibv_query_port(struct ibv_context *x, uint8_t port, struct _compat_ibv_port_attr *a)
{
	return query_port(x, port, (struct ibv_port_attr *)a, offsetof(struct ibv_port_attr, port_cap_flags2));
}

EXPORT int ibv_query_gid(struct ibv_context *x, uint8_t port, int index, union ibv_gid *gid)
{
	const struct device *d = device_of(x);
	int refused = enter_call(CALL_QUERY_GID, device_of(x));

	if (!refused)
		refused = device_error(x);
	if (!refused && (port != PORT || index < 0 || index >= MAX_GIDS))
		refused = EINVAL;
	if (refused) {
		set_errno(refused);
		return -1;
	}
	net_lock();
	memset(gid, 0, sizeof *gid);
	if (d->gids[index].used)
		*gid = d->gids[index].gid;
	net_unlock();
	return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *x, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	const struct device *d = device_of(x);
	int refused = enter_call(CALL_QUERY_GID_TABLE, device_of(x));
	size_t n = 0;

	if (refused || (refused = device_error(x)))
		return refused == NO_REASON ? NO_REASON : -refused;
	if (flags || size != sizeof *entries)
		return -EOPNOTSUPP;
	net_lock();
	for (uint32_t i = 0; i < MAX_GIDS; i++) {
		if (!d->gids[i].used)
			continue;
		if (n == max) {
			net_unlock();
			return -EINVAL;
		}
		entries[n++] = (struct ibv_gid_entry){.gid = d->gids[i].gid, .gid_index = i, .port_num = PORT, .gid_type = d->gids[i].type};
	}
	net_unlock();
	return (ssize_t)n;
}

EXPORT int ibv_query_pkey(struct ibv_context *x, uint8_t port, int index, __be16 *key)
{
	const struct device *d = device_of(x);
	int refused = enter_call(CALL_QUERY_PKEY, device_of(x));

	if (!refused)
		refused = device_error(x);
	if (!refused && (port != PORT || index < 0 || index >= profile_of(d)->pkey_entries))
		refused = EINVAL;
	if (refused) {
		set_errno(refused);
		return -1;
	}
	*key = htobe16(d->pkeys[index]);
	return 0;
}
