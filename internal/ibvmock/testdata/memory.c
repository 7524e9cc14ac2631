/* Protection domains, memory regions, memory windows, address handles. */
#include "mock.h"

#include <sys/mman.h>
#include <unistd.h>

static uint32_t new_handle(void) { return ++net->next_handle; }

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *x)
{
	int refused = enter_call(CALL_ALLOC_PD, device_of(x));

	if (refused || (refused = device_error(x)))
		return fail(refused);
	net_lock();
	struct pd *p = net_alloc(sizeof *p);
	if (p) {
		p->ibv.context = x;
		p->ibv.handle = new_handle();
	}
	net_unlock();
	return p ? &p->ibv : fail(ENOMEM);
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	struct pd *p = containerof(pd, struct pd, ibv);
	int refused = enter_call(CALL_DEALLOC_PD, device_of(pd->context));

	if (refused)
		return refused;
	if (p->users)
		return EBUSY;
	refused = device_error(pd->context);
	net_lock();
	net_free(p, sizeof *p);
	net_unlock();
	return refused;
}

static void use_pd(struct ibv_pd *pd, int n) { containerof(pd, struct pd, ibv)->users += n; }

/* Takes an entry of the table of keys. The low byte of a key changes with each use of the entry. */
static struct key *new_key(struct ibv_pd *pd, enum key_kind kind)
{
	struct key *k = net->free_keys;
	uint32_t tag;

	if (k)
		net->free_keys = k->next_free;
	else if (net->next_key < MAX_KEYS)
		k = &net->keys[net->next_key++];
	else
		return NULL;
	tag = (k->lkey + 0x5b) & 0xff;
	memset(k, 0, sizeof *k);
	k->kind = kind;
	k->lkey = (uint32_t)(k - net->keys) << 8 | tag;
	k->rkey = profile_of(device_of(pd->context))->distinct_rkey ? k->lkey ^ 0x80 : k->lkey;
	use_pd(pd, 1);
	return k;
}

static void free_key(struct key *k, struct ibv_pd *pd)
{
	use_pd(pd, -1);
	k->kind = KEY_FREE;
	k->next_free = net->free_keys;
	net->free_keys = k;
}

static int check_access(int access)
{
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return EINVAL;
	return 0;
}

/* Reports whether memory is mapped, as pinning it would. */
static bool is_mapped(uint64_t addr, uint64_t n)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), first = addr & ~(page - 1), end = (addr + n + page - 1) & ~(page - 1);

	return n > 0 && addr + n >= addr && !msync((void *)(uintptr_t)first, end - first, MS_ASYNC);
}

static void set_memory(struct key *k, uint64_t addr, uint64_t n, uint64_t iova)
{
	k->addr = addr;
	k->length = n;
	k->iova = iova;
	k->mr.addr = (void *)(uintptr_t)addr;
	k->mr.length = n;
}

static void count_pinned(int64_t n)
{
	net->pinned += (uint64_t)n;
	if (net->pinned > net->pinned_most)
		net->pinned_most = net->pinned;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t n, uint64_t iova, unsigned int access, bool is_iova)
{
	const uint64_t a = (uintptr_t)addr;
	int refused = enter_call(CALL_REG_MR, device_of(pd->context));
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	access &= ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE;
	if (refused || (refused = device_error(pd->context)) || (refused = check_access((int)access)))
		return fail(refused);
	if (n == 0 || (is_iova && (iova ^ a) & (page - 1)))
		return fail(EINVAL);
	if (!is_mapped(a, n))
		return fail(EFAULT);
	net_lock();
	struct key *k = new_key(pd, KEY_REGION);
	if (k) {
		set_memory(k, a, n, iova);
		k->access = (int)access;
		k->mr.context = pd->context;
		k->mr.pd = pd;
		k->mr.handle = new_handle();
		k->mr.lkey = k->lkey;
		k->mr.rkey = k->rkey;
		count_pinned((int64_t)n);
	}
	net_unlock();
	return k ? &k->mr : fail(ENOMEM);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t n, int access)
{
	return reg_mr(pd, addr, n, (uintptr_t)addr, (unsigned int)access, false);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t n, uint64_t iova, int access)
{
	return reg_mr(pd, addr, n, iova, (unsigned int)access, true);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t n, uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, n, iova, access, true);
}

/*
 * Registers a file that can be mapped, such as a memfd, in place of a buffer of another device. The mapping stays until the region
 * is closed, and holds the only reference of the mock to the file.
 */
EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t n, uint64_t iova, int fd, int access)
{
	int refused = enter_call(CALL_REG_DMABUF_MR, device_of(pd->context));
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = offset & ~(page - 1);

	if (refused || (refused = device_error(pd->context)) || (refused = check_access(access)))
		return fail(refused);
	if (n == 0 || (iova ^ offset) & (page - 1))
		return fail(EINVAL);
	char *p = mmap(NULL, n + offset - start, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)start);
	if (p == MAP_FAILED)
		return NULL;
	net_lock();
	struct key *k = new_key(pd, KEY_REGION);
	if (k) {
		set_memory(k, (uintptr_t)p + offset - start, n, iova);
		k->access = access;
		k->mapped = n + offset - start;
		k->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .length = n, .handle = new_handle(), .lkey = k->lkey, .rkey = k->rkey};
	}
	net_unlock();
	if (!k)
		munmap(p, n + offset - start);
	return k ? &k->mr : fail(ENOMEM);
}

/* Returns 0, or a negative number and sets errno: then the region is unchanged. */
EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t n, int access)
{
	struct key *k = containerof(mr, struct key, mr);
	int refused = enter_call(CALL_REREG_MR, device_of(mr->context));

	if (!refused)
		refused = device_error(mr->context);
	if (!refused && !profile_of(device_of(mr->context))->has_rereg)
		refused = EOPNOTSUPP;
	if (!refused && k->windows)
		refused = EBUSY;
	if (!refused && k->mapped && (flags & IBV_REREG_MR_CHANGE_TRANSLATION))
		refused = EINVAL;
	if (!refused && (flags & IBV_REREG_MR_CHANGE_ACCESS))
		refused = check_access(access);
	if (!refused && (flags & IBV_REREG_MR_CHANGE_TRANSLATION) && !is_mapped((uintptr_t)addr, n))
		refused = EFAULT;
	if (refused) {
		set_errno(refused);
		return IBV_REREG_MR_ERR_CMD;
	}
	net_lock();
	if (flags & IBV_REREG_MR_CHANGE_PD) {
		use_pd(mr->pd, -1);
		use_pd(pd, 1);
		mr->pd = pd;
	}
	if (flags & IBV_REREG_MR_CHANGE_ACCESS)
		k->access = access;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		count_pinned((int64_t)n - (int64_t)k->length);
		set_memory(k, (uintptr_t)addr, n, (uintptr_t)addr);
	}
	net_unlock();
	return 0;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct key *k = containerof(mr, struct key, mr);
	int refused = enter_call(CALL_DEREG_MR, device_of(mr->context));

	if (refused)
		return refused;
	if (k->windows)
		return EBUSY;
	refused = device_error(mr->context);
	net_lock();
	if (k->mapped)
		munmap((void *)((uintptr_t)k->addr & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1)), k->mapped);
	else
		count_pinned(-(int64_t)k->length);
	free_key(k, mr->pd);
	net_unlock();
	return refused;
}

struct ibv_mw *mock_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	int refused = enter_call(CALL_ALLOC_MW, device_of(pd->context));

	if (!refused)
		refused = device_error(pd->context);
	if (!refused && !profile_of(device_of(pd->context))->max_mw)
		refused = EOPNOTSUPP;
	if (refused)
		return fail(refused);
	net_lock();
	struct key *k = new_key(pd, KEY_WINDOW);
	if (k)
		k->mw = (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = k->rkey, .handle = new_handle(), .type = type};
	net_unlock();
	return k ? &k->mw : fail(ENOMEM);
}

static void unbind(struct key *k)
{
	if (k->region)
		k->region->windows--;
	k->region = NULL;
	k->bound_to = NULL;
}

int mock_dealloc_mw(struct ibv_mw *mw)
{
	struct key *k = containerof(mw, struct key, mw);
	int refused = enter_call(CALL_DEALLOC_MW, device_of(mw->context));

	if (refused)
		return refused;
	refused = device_error(mw->context);
	net_lock();
	unbind(k);
	free_key(k, mw->pd);
	net_unlock();
	return refused;
}

/* Executes a request that binds a window. A window of type 1 already has its new key. */
bool bind_window(struct qp *q, const struct wqe *w)
{
	struct key *k = containerof(w->mw, struct key, mw), *r = w->bind.mr ? containerof(w->bind.mr, struct key, mr) : NULL;
	const bool type2 = k->mw.type == IBV_MW_TYPE_2;

	if (k->mw.pd != q->ibv.pd || (type2 && k->region))
		return false;
	if (w->bind.length == 0) {
		unbind(k);
		return true;
	}
	if (!r || r->kind != KEY_REGION || r->mr.pd != q->ibv.pd || !(r->access & IBV_ACCESS_MW_BIND) || w->bind.addr < r->iova ||
	    w->bind.addr - r->iova > r->length || w->bind.length > r->length - (w->bind.addr - r->iova))
		return false;
	if ((w->bind.mw_access_flags & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(r->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	unbind(k);
	k->region = r;
	r->windows++;
	k->addr = real_address(r, w->bind.addr);
	k->iova = w->bind.addr;
	k->length = w->bind.length;
	k->access = (int)w->bind.mw_access_flags;
	k->rkey = w->rkey;
	k->bound_to = type2 ? q : NULL;
	return true;
}

/* Unbinds the window of type 2 with a key. It returns false if there is none that the queue pair may unbind. */
bool invalidate(struct qp *q, uint32_t rkey)
{
	struct key *k = &net->keys[rkey >> 8 < MAX_KEYS ? rkey >> 8 : 0];

	if (k->kind != KEY_WINDOW || k->rkey != rkey || k->bound_to != q)
		return false;
	unbind(k);
	return true;
}

uint64_t real_address(const struct key *k, uint64_t addr) { return addr - k->iova + k->addr; }

static bool covers(const struct key *k, uint64_t addr, uint64_t n)
{
	return addr >= k->iova && addr - k->iova <= k->length && n <= k->length - (addr - k->iova);
}

/* Returns the region of a list entry, or NULL if the queue pair may not use the memory in this way. */
struct key *find_local(const struct qp *q, const struct ibv_sge *s, int access)
{
	struct key *k = &net->keys[s->lkey >> 8 < MAX_KEYS ? s->lkey >> 8 : 0];

	if (k->kind != KEY_REGION || k->lkey != s->lkey || k->mr.pd != q->ibv.pd || (k->access & access) != access ||
	    !covers(k, s->addr, s->length))
		return NULL;
	return k;
}

/* Returns the region or window that a peer names, and the address in the process that registered it, or NULL. */
struct key *find_remote(const struct qp *q, uint32_t rkey, uint64_t addr, uint64_t n, int access, uint64_t *real)
{
	struct key *k = &net->keys[rkey >> 8 < MAX_KEYS ? rkey >> 8 : 0];

	if (k->kind == KEY_FREE || k->rkey != rkey || (k->access & access) != access || !covers(k, addr, n))
		return NULL;
	if (k->kind == KEY_WINDOW ? !k->region || k->mw.pd != q->ibv.pd || (k->bound_to && k->bound_to != q) : k->mr.pd != q->ibv.pd)
		return NULL;
	*real = real_address(k, addr);
	return k;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	int refused = enter_call(CALL_CREATE_AH, device_of(pd->context));

	if (refused || (refused = device_error(pd->context)))
		return fail(refused);
	net_lock();
	refused = check_path(device_of(pd->context), attr);
	struct ah *a = refused ? NULL : net_alloc(sizeof *a);
	if (a) {
		a->ibv.context = pd->context;
		a->ibv.pd = pd;
		a->ibv.handle = new_handle();
		a->attr = *attr;
		use_pd(pd, 1);
	}
	net_unlock();
	return a ? &a->ibv : fail(refused ? refused : ENOMEM);
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct ah *a = containerof(ah, struct ah, ibv);
	int refused = enter_call(CALL_DESTROY_AH, device_of(ah->context));

	if (refused)
		return refused;
	refused = device_error(ah->context);
	net_lock();
	use_pd(ah->pd, -1);
	net_free(a, sizeof *a);
	net_unlock();
	return refused;
}
