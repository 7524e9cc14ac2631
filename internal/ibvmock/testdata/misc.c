/* Functions that programs need, but this project does not. */
#include "mock.h"

#include <stdio.h>

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
