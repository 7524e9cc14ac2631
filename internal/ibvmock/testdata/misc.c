/* Functions that programs need, but this project does not. */
#include "mock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

/* Declared since rdma-core 65. */
struct ibv_buf;
void *ibv_alloc_buf(struct ibv_pd *pd, size_t n, struct ibv_buf **to);
void ibv_free_buf(struct ibv_buf *b);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *b, void *addr, size_t n, int access);

EXPORT __be64 ibv_get_device_guid(struct ibv_device *dev)
{
	const struct device *d = local_device(dev->name);

	return d ? htobe64(d->guid) : 0;
}

EXPORT const char *ibv_wc_status_str(enum ibv_wc_status s)
{
	static char text[32];

	snprintf(text, sizeof text, "status %d", s);
	return text;
}

/* No queue pair has the functions ibv_wr_*. */
EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *q)
{
	(void)q;
	return NULL;
}

/* Buffers for messages, since rdma-core 65. They are pages of the process. */
struct ibv_buf {
	void *addr;
	size_t length;
};

EXPORT void *ibv_alloc_buf(struct ibv_pd *pd, size_t n, struct ibv_buf **to)
{
	struct ibv_buf *b = calloc(1, sizeof *b);

	(void)pd;
	if (!b)
		return NULL;
	b->length = n;
	b->addr = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (b->addr == MAP_FAILED) {
		free(b);
		return NULL;
	}
	*to = b;
	return b->addr;
}

EXPORT void ibv_free_buf(struct ibv_buf *b)
{
	munmap(b->addr, b->length);
	free(b);
}

EXPORT struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *b, void *addr, size_t n, int access)
{
	(void)b;
	return ibv_reg_mr(pd, addr, n, access);
}
