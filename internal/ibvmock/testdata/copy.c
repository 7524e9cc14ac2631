/* Copies between the buffers of programs, also those of other processes. */
#include "mock.h"

#include <sys/uio.h>

static bool read_other(pid_t pid, uint64_t from, void *to, size_t n)
{
	struct iovec l = {to, n}, r = {(void *)(uintptr_t)from, n};

	return process_vm_readv(pid, &l, 1, &r, 1, 0) == (ssize_t)n;
}

static bool write_other(pid_t pid, uint64_t to, const void *from, size_t n)
{
	struct iovec l = {(void *)(uintptr_t)from, n}, r = {(void *)(uintptr_t)to, n};

	return process_vm_writev(pid, &l, 1, &r, 1, 0) == (ssize_t)n;
}

bool copy_bytes(pid_t to_pid, uint64_t to, pid_t from_pid, uint64_t from, size_t n)
{
	if (n == 0)
		return true;
	if (to_pid == self && from_pid == self) {
		memmove((void *)(uintptr_t)to, (void *)(uintptr_t)from, n);
		return true;
	}
	if (to_pid == self)
		return read_other(from_pid, from, (void *)(uintptr_t)to, n);
	if (from_pid == self)
		return write_other(to_pid, to, (void *)(uintptr_t)from, n);
	while (n > 0) {
		size_t part = n < BOUNCE_BYTES ? n : BOUNCE_BYTES;

		if (!read_other(from_pid, from, net->bounce, part) || !write_other(to_pid, to, net->bounce, part))
			return false;
		from += part;
		to += part;
		n -= part;
	}
	return true;
}

/* Executes an atomic operation on eight bytes and returns their value before it. The caller holds net->lock. */
uint64_t atomic_operation(pid_t pid, uint64_t addr, const struct wqe *w, bool *ok)
{
	uint64_t *p = (uint64_t *)(uintptr_t)addr, old;

	*ok = true;
	if (pid == self) {
		if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			return __atomic_fetch_add(p, w->compare_add, __ATOMIC_SEQ_CST);
		old = w->compare_add;
		__atomic_compare_exchange_n(p, &old, w->swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
		return old;
	}
	*ok = read_other(pid, addr, &old, sizeof old);
	if (*ok && w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		uint64_t sum = old + w->compare_add;
		*ok = write_other(pid, addr, &sum, sizeof sum);
	} else if (*ok && old == w->compare_add) {
		*ok = write_other(pid, addr, &w->swap, sizeof w->swap);
	}
	return old;
}
