/* Which queue pair a packet reaches: addresses, partitions, link state. */
#include "mock.h"

static bool same_gid(const union ibv_gid *a, const union ibv_gid *b) { return !memcmp(a, b, sizeof *a); }

/* Reports whether an address is that of a group, also as IPv4 in the form of RoCE. */
bool is_multicast(const union ibv_gid *g)
{
	static const uint8_t ipv4[12] = {[10] = 0xff, [11] = 0xff};

	return g->raw[0] == 0xff || (!memcmp(g->raw, ipv4, sizeof ipv4) && (g->raw[12] & 0xf0) == 0xe0);
}

/* Reports whether a device that from can reach has a GID. The kernel resolves it when an address of RoCE is first used. */
bool gid_exists(const struct device *from, const union ibv_gid *gid)
{
	for (int i = 0; i < net->device_count; i++) {
		const struct device *d = net->devices[i];
		for (int g = 0; d->fabric == from->fabric && g < MAX_GIDS; g++)
			if (d->gids[g].used && d->gids[g].type != IBV_GID_TYPE_IB && same_gid(&d->gids[g].gid, gid))
				return true;
	}
	return false;
}

/* Returns the errno with which a driver refuses an address vector, or 0. */
int check_path(const struct device *d, const struct ibv_ah_attr *a)
{
	const struct profile *p = profile_of(d);

	if (a->port_num != PORT || a->src_path_bits >= 1 << p->lmc || a->sl > 15)
		return EINVAL;
	if (!a->is_global)
		return p->roce || p->grh_required ? EINVAL : 0;
	if (a->grh.sgid_index >= MAX_GIDS || !d->gids[a->grh.sgid_index].used || a->grh.flow_label >> 20)
		return EINVAL;
	return p->roce && !is_multicast(&a->grh.dgid) && !gid_exists(d, &a->grh.dgid) ? EHOSTUNREACH : 0;
}

uint16_t pkey_of(const struct qp *q) { return q->device->pkeys[q->attr.pkey_index % MAX_PKEYS]; }

/* Two members of a partition can talk if at least one of them is a full one. */
static bool same_partition(uint16_t a, uint16_t b) { return (a & 0x7fff) && (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000); }

static bool has_lid(const struct device *d, uint16_t lid)
{
	return d->lid && lid >= d->lid && lid < d->lid + (1 << profile_of(d)->lmc);
}

/* Reports whether a path leads from one device to another. */
bool is_addressed(const struct device *from, const struct ibv_ah_attr *path, const struct device *to)
{
	if (from->fabric != to->fabric || profile_of(from)->roce != profile_of(to)->roce)
		return false;
	if (!profile_of(to)->roce && !has_lid(to, path->dlid))
		return false;
	if (!path->is_global)
		return true;
	const struct gid_entry *source = &from->gids[path->grh.sgid_index % MAX_GIDS];
	for (int i = 0; i < MAX_GIDS; i++)
		if (to->gids[i].used && to->gids[i].type == source->type && same_gid(&to->gids[i].gid, &path->grh.dgid))
			return source->used;
	return false;
}

/* Reports whether the ports of two queue pairs are up, and in one network and partition. */
bool is_linked(const struct qp *from, const struct qp *to)
{
	const struct device *a = from->device, *b = to->device;

	return a->state == IBV_PORT_ACTIVE && b->state == IBV_PORT_ACTIVE && !a->lost && !b->lost && a->fabric == b->fabric &&
	       profile_of(a)->roce == profile_of(b)->roce && same_partition(pkey_of(from), pkey_of(to));
}

/* Reports whether packets of a queue pair on a path reach another queue pair. */
bool is_reachable(const struct qp *from, const struct qp *to, const struct ibv_ah_attr *path)
{
	return is_linked(from, to) && is_addressed(from->device, path, to->device);
}
