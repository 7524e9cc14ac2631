/* A registration that returns its arguments as the fields of the region. */

#include <stddef.h>
#include <stdint.h>

struct region {
	void *context, *pd, *addr;
	size_t length;
	uint32_t handle, lkey, rkey;
};

struct region *ibv_reg_dmabuf_mr(void *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	static struct region r;

	r.pd = pd;
	r.addr = (void *)(size_t)(offset ^ iova);
	r.length = length;
	r.lkey = (uint32_t)fd;
	r.rkey = (uint32_t)access;
	return &r;
}
