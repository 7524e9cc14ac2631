/*
 * A libibverbs for tests. Its devices exist in memory only; messages are copied by the thread that posts them.
 *
 * All objects are in one segment, which every process of a test maps at the same address (net.c). So pointers between objects
 * are valid in each of these processes, and one code delivers within a process and between processes. Only the buffers of the
 * program belong to one process; copy.c reads and writes those of another one.
 *
 * Locks: net->lock guards everything but what a poll needs. It is held for each post and each call of the control path.
 * cq->lock guards the consumer's side of a completion queue, and is taken last.
 */
#ifndef IBVMOCK_H
#define IBVMOCK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define EXPORT __attribute__((visibility("default")))
#define unlikely(x) __builtin_expect(!!(x), 0)
#define containerof(p, type, member) ((type *)((char *)(p)-offsetof(type, member)))

enum {
	MAX_DEVICES = 512,
	MAX_GIDS = 16,
	MAX_PKEYS = 128,
	PORT = 1, /* every device has this one port */
	QP_BUCKETS = 1 << 14,
	MAX_KEYS = 1 << 18,
	BOUNCE_BYTES = 1 << 16,
	MULTICAST_QPN = 0xffffff,
	GRH_BYTES = 40,
};

/* How a device treats the wish for more inline bytes than it has. */
enum inline_policy { INLINE_REFUSED, INLINE_REDUCED };

/* A kind of device: what it reports and how it behaves. */
struct profile {
	const char *name;
	uint32_t vendor_id, vendor_part_id;
	const char *firmware;
	const char *driver;      /* the kernel's driver of the PCI function */
	uint8_t link_layer;
	bool roce;               /* addresses are GIDs of type RoCE */
	bool grh_required;       /* IBV_QPF_GRH_REQUIRED */
	uint8_t lmc;
	uint8_t max_mtu, active_mtu;
	uint16_t pkeys[4];       /* the first entries of the table; 0 ends them */
	int pkey_entries;
	int max_qp_wr, max_sge, max_sge_rd, max_cqe, max_srq, max_srq_wr, max_srq_sge;
	int max_rd, max_init_rd; /* READs and atomic operations that a queue pair serves and starts */
	int max_mw;
	enum ibv_atomic_cap atomics;
	uint32_t max_inline, max_inline_ud;
	enum inline_policy inline_policy;
	bool has_uc;
	bool has_rereg;
	bool resizes_srq;
	bool discards;           /* completions of a destroyed or reset queue pair disappear */
	bool power_of_two;       /* queues are rounded up to powers of two */
	bool counts_events;      /* arming has an effect only after the last event was read by ibv_get_cq_event */
	bool distinct_rkey;      /* the keys of a region differ */
};

int profile_index(const char *name);
const struct profile *profile_at(int index);

struct gid_entry {
	union ibv_gid gid;
	uint32_t type;
	bool used;
};

/* A device of one node. Processes of the same node share it. */
struct device {
	char name[64], node[64];
	int profile_index;
	int fabric;              /* devices reach each other if they are attached to the same network */
	uint64_t guid;
	enum ibv_port_state state;
	uint8_t active_mtu, sl;
	uint16_t lid;
	bool lost;
	struct gid_entry gids[MAX_GIDS];
	uint16_t pkeys[MAX_PKEYS];
	struct context *contexts; /* all that are open, in all processes */
};

static inline const struct profile *profile_of(const struct device *d) { return profile_at(d->profile_index); }

struct event {
	struct ibv_async_event ev;
	struct event *next;
};

/* A descriptor that is readable once for each waiting event: it holds eight bytes for each. */
struct bell {
	int fd;        /* of the process pid */
	pid_t pid;
	uint32_t id;   /* names the FIFO through which other processes ring it */
};

struct context {
	struct verbs_context verbs; /* ends with struct ibv_context */
	struct device *device;
	struct context *next;
	struct bell bell;
	struct event *events, **last_event;
};

struct pd {
	struct ibv_pd ibv;
	int users;
};

enum key_kind { KEY_FREE, KEY_REGION, KEY_WINDOW };

/* A memory region or a memory window. */
struct key {
	union {
		struct ibv_mr mr;
		struct ibv_mw mw;
	};
	enum key_kind kind;
	uint32_t lkey, rkey;
	uint64_t addr, length, iova;
	int access;
	struct key *region;      /* of a bound window */
	struct qp *bound_to;     /* of a window of type 2 */
	int windows;             /* bound to this region */
	size_t mapped;           /* bytes of the mapping of a dmabuf */
	struct key *next_free;
};

struct ah {
	struct ibv_ah ibv;
	struct ibv_ah_attr attr;
};

struct channel {
	struct ibv_comp_channel ibv;
	struct bell bell;
	struct cq *first, *last; /* queues with an event that was not read, each once */
	int users;
};

struct cqe {
	struct ibv_wc wc;
	struct qp *qp;           /* whose slot the poll frees; NULL if it was destroyed */
	struct srq *srq;         /* of the slot, else the queue is one of qp's own */
	uint32_t slots;          /* number of slots that the poll frees */
	bool solicited;
	bool receive;
	bool last_wqe;           /* not a completion: IBV_EVENT_QP_LAST_WQE_REACHED is due */
};

struct late {
	struct cqe cqe;
	uint64_t due;            /* value of cq->polls */
	struct late *next;
};

enum armed { NOT_ARMED, ARMED_SOLICITED, ARMED };

struct cq {
	struct ibv_cq ibv;
	struct channel *channel;
	uint32_t capacity, mask; /* mask + 1 entries */
	struct cqe *ring;
	bool failed;             /* overrun */
	int vector;
	enum armed armed;
	uint32_t events, events_read; /* of the channel */
	uint32_t async_read;
	struct cq *next_event;   /* in the list of channel */
	struct late *late, **last_late;
	uint32_t late_count;
	int users;
	uint64_t tail __attribute__((aligned(64)));  /* written with net->lock */
	uint32_t lock __attribute__((aligned(64)));  /* guards head */
	uint64_t head;
	uint64_t polls;          /* calls of ibv_poll_cq */
};

/* A posted receive. */
struct recv_wqe {
	uint64_t wr_id;
	uint32_t num_sge;
	struct ibv_sge sge[];
};

/* A receive queue, of one queue pair or shared. */
struct recv_queue {
	uint32_t size, mask, max_sge, stride;
	uint32_t posted, taken;
	uint32_t freed __attribute__((aligned(64))); /* by polls */
	char *slots;
};

struct srq {
	struct ibv_srq ibv;
	struct recv_queue rq;
	uint32_t limit;
	uint32_t async_read;
	int users;
};

/* A posted send request. sge holds inline data if IBV_SEND_INLINE is set. */
struct wqe {
	uint64_t wr_id, remote_addr, compare_add, swap, length;
	uint32_t opcode, flags, ex, rkey;
	uint32_t num_sge;
	uint32_t remote_qpn, remote_qkey;
	struct ah *ah;
	struct ibv_mw *mw;
	struct ibv_mw_bind_info bind;
	struct ibv_sge sge[];
};

enum stall { RUNNING, NO_ANSWER, NOT_READY };

struct qp {
	struct ibv_qp ibv;
	struct device *device;
	struct qp *next_in_bucket;
	uint32_t num;            /* 0 when destroyed */
	pid_t pid;
	enum ibv_qp_state state;
	struct ibv_qp_attr attr;
	struct ibv_qp_cap cap;
	bool signal_all;
	uint32_t async_read;
	bool established;        /* IBV_EVENT_COMM_EST was raised or is not due */

	struct qp *peer;         /* the result of the last look-up; valid while route_epoch is that of the network */
	uint64_t route_epoch;

	uint32_t sq_size, sq_mask, sq_stride;
	uint32_t posted, executed, completed;        /* requests; completed counts those before the last completion */
	uint32_t sq_freed __attribute__((aligned(64))); /* by polls */
	char *sq;
	uint32_t allowed;        /* bits of the operations that may be posted */
	uint32_t max_sge_rd;
	struct recv_queue rq;
	struct srq *srq;

	enum stall stall;
	uint64_t deadline;       /* of the stalled request in ns, 0 for none */
	struct qp *next_stalled, **stalled_at;
	uint64_t round;          /* the last call of run_stalled that has run it */

	union ibv_gid groups[4];
	int group_count;
};

/* What the processes of a test share. */
struct net {
	uint32_t lock;           /* process ID of the owner */
	uint32_t next_qpn, next_handle, next_bell, next_key;
	uint64_t epoch;          /* changes whenever another queue pair may be reachable than before */
	char *unused;            /* start of the memory that was never used */
	void *free[40];          /* blocks by the logarithm of their size */
	struct qp *buckets[QP_BUCKETS];
	struct qp *stalled;
	uint32_t timed;          /* stalled queue pairs with a deadline */
	uint32_t timers_awake;   /* 1 if there are any: the threads of timer.c look at them */
	uint64_t rounds;         /* calls of run_stalled */
	struct key *free_keys;
	struct device *devices[MAX_DEVICES];
	int device_count;
	uint64_t pinned, pinned_most; /* registered bytes */
	uint32_t drop_datagrams; /* number of datagrams to lose */
	uint64_t old_value;      /* of an atomic operation */
	char bounce[BOUNCE_BYTES];
	struct key keys[MAX_KEYS];
};

extern struct net *net;
extern pid_t self;

/* net.c */
int net_attach(void);
void net_lock(void);
void net_unlock(void);
void spin_lock(uint32_t *word);
void spin_unlock(uint32_t *word);
bool process_exists(pid_t pid);
void *net_alloc(size_t n);
void net_free(void *p, size_t n);
uint32_t round_up(uint32_t n);

/* copy.c: both return false if the other process is gone. */
bool copy_bytes(pid_t to_pid, uint64_t to, pid_t from_pid, uint64_t from, size_t n);
uint64_t atomic_operation(pid_t pid, uint64_t addr, const struct wqe *w, bool *ok);

/* events.c */
int bell_open(struct bell *b);
void bell_close(struct bell *b);
void bell_ring(const struct bell *b);
int bell_wait(const struct bell *b);
void raise_port_event(struct device *d, enum ibv_event_type type);
void raise_qp_event(struct qp *q, enum ibv_event_type type);
void raise_cq_event(struct cq *c);
void raise_srq_event(struct srq *s, enum ibv_event_type type);
void drop_events(struct context *x, const void *object);
void wait_for_acks(const uint32_t *acked, uint32_t read);

/* device.c, route.c */
struct device *local_device(const char *name);
struct device *device_of(struct ibv_context *x);
uint16_t pkey_of(const struct qp *q);
bool is_multicast(const union ibv_gid *gid);
bool gid_exists(const struct device *from, const union ibv_gid *gid);
bool is_linked(const struct qp *from, const struct qp *to);
bool is_reachable(const struct qp *from, const struct qp *to, const struct ibv_ah_attr *path);
bool is_addressed(const struct device *from, const struct ibv_ah_attr *path, const struct device *to);
int check_path(const struct device *d, const struct ibv_ah_attr *a);
int device_error(struct ibv_context *x);
void configure_devices(const char *list);

/* memory.c */
struct key *find_local(const struct qp *q, const struct ibv_sge *s, int access);
struct key *find_remote(const struct qp *q, uint32_t rkey, uint64_t addr, uint64_t n, int access, uint64_t *real);
bool bind_window(struct qp *q, const struct wqe *w);
bool invalidate(struct qp *q, uint32_t rkey);
uint64_t real_address(const struct key *k, uint64_t addr);
struct ibv_mw *mock_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int mock_dealloc_mw(struct ibv_mw *mw);

/* cq.c */
void complete(struct cq *c, const struct cqe *e);
int mock_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int mock_req_notify_cq(struct ibv_cq *cq, int solicited);
void remove_completions(struct cq *c, struct qp *q);
void show_all(struct cq *c);

/* qp.c */
struct qp *find_qp(uint32_t num);
void enter_error(struct qp *q);
void reap(pid_t pid);

/* modify.c */
int check_modify(const struct qp *q, const struct ibv_qp_attr *a, int mask, enum ibv_qp_state to);
void store_attributes(struct qp *q, const struct ibv_qp_attr *a, int mask);

/* recv.c */
bool recv_queue_open(struct recv_queue *r, uint32_t size, uint32_t max_sge);
void recv_queue_close(struct recv_queue *r);
struct recv_wqe *recv_queue_peek(struct recv_queue *r);
struct recv_wqe *take_receive(struct qp *q);
void flush_receives(struct qp *q);
void complete_receive(struct qp *q, const struct ibv_wc *wc, bool solicited);
int mock_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int mock_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* post.c */
int mock_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int mock_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *b);
struct wqe *wqe_at(struct qp *q, uint32_t n);
void flush_sends(struct qp *q);
void complete_send(struct qp *q, const struct wqe *w, enum ibv_wc_status status, uint32_t length);

/* run.c */
void run(struct qp *q);
void run_stalled(void);
void unstall(struct qp *q);
void expire(struct qp *q);

/* transfer.c, datagram.c: they execute a request. STALLED leaves it in the queue. */
enum outcome { DONE, FAILED, STALLED_NO_ANSWER, STALLED_NOT_READY };
enum outcome transfer(struct qp *q, struct wqe *w);
enum outcome send_datagram(struct qp *q, struct wqe *w);
bool gather_ok(struct qp *q, const struct wqe *w, int access);
bool copy_to_receive(struct qp *from, const struct wqe *w, struct qp *to, const struct recv_wqe *r, uint32_t offset);

/* timer.c */
void timer_start(void);
void timer_wake(void);
uint64_t now_ns(void);

/* control.c */
enum call {
	CALL_GET_DEVICE_LIST, CALL_OPEN_DEVICE, CALL_CLOSE_DEVICE, CALL_QUERY_DEVICE, CALL_QUERY_PORT, CALL_QUERY_GID,
	CALL_QUERY_GID_TABLE, CALL_QUERY_PKEY, CALL_GET_ASYNC_EVENT, CALL_ALLOC_PD, CALL_DEALLOC_PD, CALL_REG_MR, CALL_REREG_MR,
	CALL_DEREG_MR, CALL_REG_DMABUF_MR, CALL_ALLOC_MW, CALL_DEALLOC_MW, CALL_BIND_MW, CALL_CREATE_AH, CALL_DESTROY_AH,
	CALL_CREATE_COMP_CHANNEL, CALL_DESTROY_COMP_CHANNEL, CALL_CREATE_CQ, CALL_RESIZE_CQ, CALL_DESTROY_CQ, CALL_GET_CQ_EVENT,
	CALL_REQ_NOTIFY_CQ, CALL_CREATE_QP, CALL_MODIFY_QP, CALL_QUERY_QP, CALL_DESTROY_QP, CALL_ATTACH_MCAST, CALL_DETACH_MCAST,
	CALL_CREATE_SRQ, CALL_MODIFY_SRQ, CALL_QUERY_SRQ, CALL_DESTROY_SRQ, CALL_POST_SEND, CALL_POST_RECV, CALL_POST_SRQ_RECV,
	CALL_POLL_CQ, CALLS,
};

/* Behaviours of this process that a test has chosen. */
struct knobs {
	bool any;                /* one of the fields that the data path looks at is set */
	uint32_t late, flush_late;     /* polls before a completion, or a flushed one, can be seen */
	bool held;               /* no completion can be seen */
	bool instant;            /* requests succeed at once and nothing is sent */
	uint32_t stack_bytes;    /* functions of the data path use so much stack */
	bool measure_stack;      /* functions of the data path measure the stack */
	uint32_t speed;          /* timeouts are divided by it */
	int discards;            /* whether completions of destroyed pairs disappear: -1 as the profile says, 0, 1 */
	int refusals;            /* number of pending ones */
};

/* The errno of a refusal without a reason: the call fails, and errno stays 0. */
#define NO_REASON (-1)

static inline void set_errno(int e) { errno = e == NO_REASON ? 0 : e; }

static inline void *fail(int e)
{
	set_errno(e);
	return NULL;
}

extern struct knobs knobs;
int enter_call(enum call c, const struct device *d);
int enter_call_slow(enum call c, const struct device *d);
extern uint64_t call_counts[CALLS];
void control_start(void);

/* stack.c: figures in bytes, of the calls since the measurement began. */
struct stack_figures {
	uint64_t before; /* the most that was in use when a call began */
	uint64_t room;   /* the least that was left below it */
	uint64_t used;   /* the most that a call has used */
};

void measure_stack(void);
void measure_stacks_again(void);
struct stack_figures measured_stacks(void);

void record_modify(const struct ibv_qp_attr *a, int mask);

/*
 * Counts a call of the data path, and returns the errno with which a test wants it refused, or 0. The counter of posts is exact,
 * because the caller holds net->lock. That of polls is exact if one thread polls.
 */
static inline int enter_data_path(enum call c, struct ibv_context *x)
{
	__atomic_store_n(&call_counts[c], __atomic_load_n(&call_counts[c], __ATOMIC_RELAXED) + 1, __ATOMIC_RELAXED);
	return unlikely(knobs.any) ? enter_call_slow(c, device_of(x)) : 0;
}

#endif
