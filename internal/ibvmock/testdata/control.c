/* What tests control: the devices, refusals, late completions; and what they can ask for. */
#include "mock.h"

#include <alloca.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct knobs knobs = {.discards = -1, .speed = 1};
uint64_t call_counts[CALLS];

static const char *const call_names[CALLS] = {
	"ibv_get_device_list", "ibv_open_device", "ibv_close_device", "ibv_query_device", "ibv_query_port", "ibv_query_gid",
	"_ibv_query_gid_table", "ibv_query_pkey", "ibv_get_async_event", "ibv_alloc_pd", "ibv_dealloc_pd", "ibv_reg_mr", "ibv_rereg_mr",
	"ibv_dereg_mr", "ibv_reg_dmabuf_mr", "ibv_alloc_mw", "ibv_dealloc_mw", "ibv_bind_mw", "ibv_create_ah", "ibv_destroy_ah",
	"ibv_create_comp_channel", "ibv_destroy_comp_channel", "ibv_create_cq", "ibv_resize_cq", "ibv_destroy_cq", "ibv_get_cq_event",
	"ibv_req_notify_cq", "ibv_create_qp", "ibv_modify_qp", "ibv_query_qp", "ibv_destroy_qp", "ibv_attach_mcast", "ibv_detach_mcast",
	"ibv_create_srq", "ibv_modify_srq", "ibv_query_srq", "ibv_destroy_srq", "ibv_post_send", "ibv_post_recv", "ibv_post_srq_recv",
	"ibv_poll_cq",
};

/*
 * What is refused: the call after skip others fails with the errno, and so do count - 1 more. With a device, its calls alone count,
 * besides those that are not for one device.
 */
struct refusal {
	uint32_t skip, count;
	int error;
	const struct device *device;
};

static struct refusal refusals[CALLS];
static uint32_t lock; /* guards refusals and knobs; taken last */
static struct ibv_qp_attr last_attr;
static int last_mask;

static void update_any(void)
{
	knobs.any = knobs.late || knobs.flush_late || knobs.held || knobs.stack_bytes || knobs.measure_stack || knobs.refusals;
}

static int take_refusal(enum call c, const struct device *d)
{
	struct refusal *r = &refusals[c];
	int error = 0;

	spin_lock(&lock);
	if (r->device && d && r->device != d) {
		/* another device */
	} else if (r->count > 0 && r->skip > 0) {
		r->skip--;
	} else if (r->count > 0) {
		error = r->error;
		if (r->count != UINT32_MAX && --r->count == 0) {
			knobs.refusals--;
			update_any();
		}
	}
	spin_unlock(&lock);
	return error;
}

/* Uses n bytes of the stack, from the top to the bottom, as a driver with large variables does. */
static __attribute__((noinline)) void use_stack(uint32_t n)
{
	volatile char *p = alloca(n);

	for (uint32_t i = n; i > 0; i -= i < 256 ? i : 256)
		p[i - 1] = (char)i;
	p[0] = 0;
}

int enter_call_slow(enum call c, const struct device *d)
{
	if (knobs.measure_stack)
		measure_stack();
	if (knobs.stack_bytes)
		use_stack(knobs.stack_bytes);
	return knobs.refusals ? take_refusal(c, d) : 0;
}

/* Counts a call, and returns the errno with which a test wants it refused, or 0. */
int enter_call(enum call c, const struct device *d)
{
	__atomic_add_fetch(&call_counts[c], 1, __ATOMIC_RELAXED);
	return knobs.refusals ? take_refusal(c, d) : 0;
}

void record_modify(const struct ibv_qp_attr *a, int mask)
{
	spin_lock(&lock);
	last_attr = *a;
	last_mask = mask;
	spin_unlock(&lock);
}

static int call_number(const char *name)
{
	for (int i = 0; i < CALLS; i++)
		if (!strcmp(call_names[i], name))
			return i;
	return -1;
}

/* Attaches to the network. It returns 0 or an errno. Every other function of this file may be called after it. */
EXPORT int ibvmock_start(void) { return net_attach() ? errno : 0; }

/* Adds devices, see configure_devices. */
EXPORT void ibvmock_add_devices(const char *list)
{
	net_lock();
	configure_devices(list);
	net_unlock();
}

/* Shows what was held. All queues are found by the queue pairs that use them. */
static void release(void)
{
	for (int i = 0; i < QP_BUCKETS; i++)
		for (struct qp *q = net->buckets[i]; q; q = q->next_in_bucket) {
			if (q->pid != self)
				continue;
			show_all(containerof(q->ibv.send_cq, struct cq, ibv));
			show_all(containerof(q->ibv.recv_cq, struct cq, ibv));
		}
}

/* Returns the number of devices of the network. */
EXPORT int ibvmock_devices(void) { return net->device_count; }

/* Ends all behaviours of this process but the speed. */
EXPORT void ibvmock_reset(void)
{
	net_lock();
	bool held = knobs.held;
	spin_lock(&lock);
	knobs = (struct knobs){.discards = -1, .speed = knobs.speed};
	memset(refusals, 0, sizeof refusals);
	spin_unlock(&lock);
	net->drop_datagrams = 0;
	if (held)
		release();
	net_unlock();
}

/* Returns the name of a function, or NULL behind the last one. */
EXPORT const char *ibvmock_function(int i) { return i < CALLS ? call_names[i] : NULL; }

/* Returns how often a function was called by this process, or -1 for an unknown name. */
EXPORT int64_t ibvmock_calls(const char *name)
{
	int c = call_number(name);

	return c < 0 ? -1 : (int64_t)__atomic_load_n(&call_counts[c], __ATOMIC_RELAXED);
}

/* Refuses calls of a function, see struct refusal. It returns 0, or -1 for an unknown name. */
static int refuse_on(const struct device *d, const char *name, uint32_t skip, uint32_t count, int error)
{
	int c = call_number(name);

	if (c < 0)
		return -1;
	spin_lock(&lock);
	knobs.refusals += (count > 0) - (refusals[c].count > 0);
	refusals[c] = (struct refusal){skip, count, error, d};
	update_any();
	spin_unlock(&lock);
	return 0;
}

/* Refuses calls of a function with an errno: count calls after the next skip. It returns 0, or -1 for an unknown name. */
EXPORT int ibvmock_refuse(const char *name, uint32_t skip, uint32_t count, int error)
{
	return refuse_on(NULL, name, skip, count, error);
}

/* Refuses what an entry of IBVMOCK_REFUSE says: ERRNO, ERRNO:SKIP:COUNT or ERRNO:SKIP:COUNT:DEVICE. */
static int refuse_as(const char *name, const char *value)
{
	uint32_t skip = 0, count = UINT32_MAX;
	const struct device *d = NULL;
	char device[64] = "";
	int error, fields = sscanf(value, "%d:%" SCNu32 ":%" SCNu32 ":%63s", &error, &skip, &count, device);

	if ((fields != 1 && fields < 3) || (*device && !(d = local_device(device))))
		return -1;
	return refuse_on(d, name, skip, count, error);
}

static bool set_knob(const char *name, int64_t v)
{
	if (!strcmp(name, "late"))
		knobs.late = (uint32_t)v;
	else if (!strcmp(name, "flush_late"))
		knobs.flush_late = (uint32_t)v;
	else if (!strcmp(name, "instant"))
		knobs.instant = v;
	else if (!strcmp(name, "stack"))
		knobs.stack_bytes = (uint32_t)v;
	else if (!strcmp(name, "measure_stack"))
		measure_stacks_again(), knobs.measure_stack = v;
	else if (!strcmp(name, "speed"))
		knobs.speed = (uint32_t)v;
	else if (!strcmp(name, "discards"))
		knobs.discards = (int)v;
	else if (!strcmp(name, "drop_datagrams"))
		net->drop_datagrams = (uint32_t)v;
	else if (!strcmp(name, "hold"))
		knobs.held = v;
	else
		return false;
	update_any();
	return true;
}

/* Sets a behaviour of this process. It returns 0, or -1 for an unknown name. */
EXPORT int ibvmock_set(const char *name, int64_t v)
{
	net_lock();
	spin_lock(&lock);
	bool known = set_knob(name, v);
	spin_unlock(&lock);
	if (known && !knobs.held && !strcmp(name, "hold"))
		release();
	net_unlock();
	return known ? 0 : -1;
}

/* Returns a figure, or -1 for an unknown name. */
EXPORT int64_t ibvmock_get(const char *name)
{
	int64_t n = 0;

	if (!strcmp(name, "pinned"))
		return (int64_t)net->pinned;
	if (!strcmp(name, "pinned_most"))
		return (int64_t)net->pinned_most;
	if (!strcmp(name, "stack_before"))
		return (int64_t)measured_stacks().before;
	if (!strcmp(name, "stack_room"))
		return (int64_t)measured_stacks().room;
	if (!strcmp(name, "stack_used"))
		return (int64_t)measured_stacks().used;
	if (strcmp(name, "queue_pairs"))
		return -1;
	net_lock();
	for (int i = 0; i < QP_BUCKETS; i++)
		for (struct qp *q = net->buckets[i]; q; q = q->next_in_bucket)
			n += q->pid == self;
	net_unlock();
	return n;
}

/* Copies the attributes of the last ibv_modify_qp to a, and returns its mask. */
EXPORT int ibvmock_last_modify(struct ibv_qp_attr *a)
{
	spin_lock(&lock);
	*a = last_attr;
	int mask = last_mask;
	spin_unlock(&lock);
	return mask;
}

/* What the kernel says in sysfs about a device and its port. Type description of library.go has the same layout. */
struct description {
	uint64_t guid;
	uint32_t state;
	uint16_t lid, pkey_count;
	uint16_t pkeys[MAX_PKEYS];
	uint32_t gid_types[MAX_GIDS];
	uint8_t gid_used[MAX_GIDS];
	union ibv_gid gids[MAX_GIDS];
};

/* Describes a device. It returns 0, or -1 for an unknown device. */
EXPORT int ibvmock_describe(const char *device, struct description *to)
{
	net_lock();
	const struct device *d = local_device(device);
	for (int i = 0; d && i < MAX_GIDS; i++) {
		to->gids[i] = d->gids[i].gid;
		to->gid_types[i] = d->gids[i].type;
		to->gid_used[i] = d->gids[i].used;
	}
	if (d) {
		to->guid = d->guid;
		to->state = d->state;
		to->lid = d->lid;
		to->pkey_count = (uint16_t)profile_of(d)->pkey_entries;
		memcpy(to->pkeys, d->pkeys, sizeof to->pkeys);
	}
	net_unlock();
	return d ? 0 : -1;
}

/* Returns the name of the kernel's driver of a device, or NULL for an unknown device. */
EXPORT const char *ibvmock_driver(const char *device)
{
	const struct device *d = local_device(device);

	return d ? profile_of(d)->driver : NULL;
}

/* Changes the state of a device's port, with the event that the kernel raises. It returns 0, or -1 for an unknown device. */
EXPORT int ibvmock_set_port(const char *device, const char *what, int64_t v)
{
	net_lock();
	struct device *d = local_device(device);
	int result = d ? 0 : -1;
	if (d && !strcmp(what, "state")) {
		d->state = (enum ibv_port_state)v;
		raise_port_event(d, v == IBV_PORT_ACTIVE ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
	} else if (d && !strcmp(what, "lid")) {
		d->lid = (uint16_t)v;
		raise_port_event(d, IBV_EVENT_LID_CHANGE);
	} else if (d && !strcmp(what, "mtu")) {
		d->active_mtu = (uint8_t)v;
	} else if (d && !strcmp(what, "fatal")) {
		d->lost = v;
		if (v)
			raise_port_event(d, IBV_EVENT_DEVICE_FATAL);
	} else if (d && !strcmp(what, "event")) {
		raise_port_event(d, (enum ibv_event_type)v);
	} else {
		result = -1;
	}
	net->epoch++;
	if (net->stalled)
		run_stalled();
	net_unlock();
	return result;
}

/* Sets an entry of the table of partitions. */
EXPORT int ibvmock_set_pkey(const char *device, uint32_t index, uint32_t key)
{
	net_lock();
	struct device *d = local_device(device);
	int result = d && index < MAX_PKEYS ? 0 : -1;
	if (!result) {
		d->pkeys[index] = (uint16_t)key;
		net->epoch++;
		raise_port_event(d, IBV_EVENT_PKEY_CHANGE);
	}
	net_unlock();
	return result;
}

/* Sets an entry of the table of addresses, or removes it if gid is NULL. */
EXPORT int ibvmock_set_gid(const char *device, uint32_t index, const union ibv_gid *gid, uint32_t type)
{
	net_lock();
	struct device *d = local_device(device);
	int result = d && index < MAX_GIDS ? 0 : -1;
	if (!result) {
		d->gids[index] = (struct gid_entry){.type = type, .used = gid != NULL};
		if (gid)
			d->gids[index].gid = *gid;
		net->epoch++;
		raise_port_event(d, IBV_EVENT_GID_CHANGE);
	}
	net_unlock();
	return result;
}

/* Raises an event of the queue pair with a number. */
EXPORT int ibvmock_raise_qp(uint32_t num, int type)
{
	net_lock();
	struct qp *q = find_qp(num);
	if (q)
		raise_qp_event(q, (enum ibv_event_type)type);
	net_unlock();
	return q ? 0 : -1;
}

/* Brings the queue pair with a number to the error state, as a fault of the device does. */
EXPORT int ibvmock_break_qp(uint32_t num)
{
	net_lock();
	struct qp *q = find_qp(num);
	if (q)
		enter_error(q);
	if (net->stalled)
		run_stalled();
	net_unlock();
	return q ? 0 : -1;
}

/* Takes the initial behaviour from the environment: IBVMOCK_DEVICES, IBVMOCK_SET=late=3,speed=16 and IBVMOCK_REFUSE, see refuse_as. */
void control_start(void)
{
	const char *devices = getenv("IBVMOCK_DEVICES"), *set = getenv("IBVMOCK_SET"), *refuse = getenv("IBVMOCK_REFUSE");
	char *copy = strdup(set ? set : ""), *rest = copy, *value;

	if (devices)
		ibvmock_add_devices(devices);
	for (char *entry; copy && (entry = strsep(&rest, ","));)
		if ((value = strchr(entry, '='))) {
			*value++ = 0;
			if (ibvmock_set(entry, atoll(value)))
				fprintf(stderr, "ibvmock: unknown setting %s\n", entry);
		}
	free(copy);
	copy = rest = strdup(refuse ? refuse : "");
	for (char *entry; copy && (entry = strsep(&rest, ","));)
		if ((value = strchr(entry, '='))) {
			*value++ = 0;
			if (refuse_as(entry, value))
				fprintf(stderr, "ibvmock: unknown refusal %s=%s\n", entry, value);
		}
	free(copy);
}
