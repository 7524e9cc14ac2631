/* The kinds of devices. The numbers are those that the drivers report, as far as they are public. */
#include "mock.h"

#define MLX5                                                                                                     \
	.vendor_id = 0x02c9, .vendor_part_id = 4123, .firmware = "20.36.1010", .driver = "mlx5_core", .max_mtu = IBV_MTU_4096, \
	.pkey_entries = 128,                                                                                             \
	.max_qp_wr = 32768, .max_sge = 30, .max_sge_rd = 30, .max_cqe = 4194303, .max_srq = 8388608, .max_srq_wr = 32767,    \
	.max_srq_sge = 31, .max_rd = 16, .max_init_rd = 16, .max_mw = 16777216, .atomics = IBV_ATOMIC_HCA, .max_inline = 828, \
	.max_inline_ud = 828, .inline_policy = INLINE_REFUSED, .has_uc = true, .has_rereg = true, .resizes_srq = false,      \
	.discards = true, .power_of_two = true, .counts_events = true

static const struct profile profiles[] = {
	{.name = "mlx5_ib", MLX5, .link_layer = IBV_LINK_LAYER_INFINIBAND, .active_mtu = IBV_MTU_4096, .pkeys = {0xffff, 0x8001, 0x8002}},
	{.name = "mlx5_ib_lmc", MLX5, .link_layer = IBV_LINK_LAYER_INFINIBAND, .active_mtu = IBV_MTU_4096, .lmc = 1, .pkeys = {0xffff}},
	/* A virtual function: the subnet manager gave it limited membership of the default partition, and a full one behind it. */
	{.name = "mlx5_vf", MLX5, .link_layer = IBV_LINK_LAYER_INFINIBAND, .active_mtu = IBV_MTU_4096, .grh_required = true,
	 .pkeys = {0x7fff, 0x0001, 0x8001}},
	{.name = "mlx5_roce", MLX5, .link_layer = IBV_LINK_LAYER_ETHERNET, .roce = true, .active_mtu = IBV_MTU_1024, .pkeys = {0xffff}},
	{.name = "bnxt_re", .vendor_id = 0x14e4, .vendor_part_id = 0x1750, .firmware = "226.0.145.0", .driver = "bnxt_en",
	 .link_layer = IBV_LINK_LAYER_ETHERNET, .roce = true, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_1024, .pkeys = {0xffff},
	 .pkey_entries = 1, .max_qp_wr = 65407, .max_sge = 6, .max_sge_rd = 6, .max_cqe = 8388607, .max_srq = 262144,
	 .max_srq_wr = 1048574, .max_srq_sge = 6, .max_rd = 126, .max_init_rd = 126, .atomics = IBV_ATOMIC_HCA, .max_inline = 96,
	 .max_inline_ud = 96, .inline_policy = INLINE_REFUSED, .discards = true},
	{.name = "irdma", .vendor_id = 0x8086, .vendor_part_id = 0x1592, .firmware = "1.63", .driver = "ice",
	 .link_layer = IBV_LINK_LAYER_ETHERNET,
	 .roce = true, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_1024, .pkeys = {0xffff}, .pkey_entries = 1, .max_qp_wr = 4063,
	 .max_sge = 13, .max_sge_rd = 13, .max_cqe = 1048574, .max_rd = 127, .max_init_rd = 127, .atomics = IBV_ATOMIC_NONE,
	 .max_inline = 101, .max_inline_ud = 101, .inline_policy = INLINE_REFUSED, .has_rereg = true, .discards = true,
	 .counts_events = true},
	{.name = "ionic", .vendor_id = 0x1dd8, .vendor_part_id = 0x1002, .firmware = "1.110.0", .driver = "ionic",
	 .link_layer = IBV_LINK_LAYER_ETHERNET,
	 .roce = true, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_1024, .pkeys = {0xffff}, .pkey_entries = 1, .max_qp_wr = 65535,
	 .max_sge = 8, .max_sge_rd = 8, .max_cqe = 65535, .max_rd = 16, .max_init_rd = 16, .atomics = IBV_ATOMIC_HCA,
	 .max_inline = 416, .max_inline_ud = 384, .inline_policy = INLINE_REFUSED, .discards = true, .power_of_two = true},
	/* Omni-Path: an InfiniBand port whose first partition has full members, and whose second is that of the manager. */
	{.name = "hfi1", .vendor_id = 0x1175, .vendor_part_id = 0x24f0, .firmware = "1.27.0", .driver = "hfi1",
	 .link_layer = IBV_LINK_LAYER_INFINIBAND, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_4096,
	 .pkeys = {0x8001, 0x7fff, 0xffff}, .pkey_entries = 16, .max_qp_wr = 16383, .max_sge = 96, .max_sge_rd = 96,
	 .max_cqe = 3145727, .max_srq = 1024, .max_srq_wr = 131071, .max_srq_sge = 128, .max_rd = 16, .max_init_rd = 16,
	 .atomics = IBV_ATOMIC_GLOB, .inline_policy = INLINE_REDUCED, .has_uc = true, .resizes_srq = true},
	{.name = "noinline", .vendor_id = 0x1234, .vendor_part_id = 1, .firmware = "1.0", .driver = "mock",
	 .link_layer = IBV_LINK_LAYER_ETHERNET,
	 .roce = true, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_4096, .pkeys = {0xffff}, .pkey_entries = 1, .max_qp_wr = 8192,
	 .max_sge = 4, .max_sge_rd = 4, .max_cqe = 32768, .max_srq = 64, .max_srq_wr = 8192, .max_srq_sge = 4, .max_rd = 8,
	 .max_init_rd = 8, .atomics = IBV_ATOMIC_HCA, .inline_policy = INLINE_REFUSED, .distinct_rkey = true},
	{.name = "small", .vendor_id = 0x1234, .vendor_part_id = 2, .firmware = "1.0", .driver = "mock",
	 .link_layer = IBV_LINK_LAYER_ETHERNET,
	 .roce = true, .max_mtu = IBV_MTU_1024, .active_mtu = IBV_MTU_1024, .pkeys = {0xffff}, .pkey_entries = 1, .max_qp_wr = 256,
	 .max_sge = 2, .max_sge_rd = 1, .max_cqe = 1024, .max_srq = 4, .max_srq_wr = 64, .max_srq_sge = 2, .max_rd = 1,
	 .max_init_rd = 1, .atomics = IBV_ATOMIC_NONE, .max_inline = 64, .max_inline_ud = 64, .inline_policy = INLINE_REFUSED,
	 .discards = true},
};

int profile_index(const char *name)
{
	for (size_t i = 0; i < sizeof profiles / sizeof *profiles; i++)
		if (!strcmp(profiles[i].name, name))
			return (int)i;
	return -1;
}

const struct profile *profile_at(int index) { return &profiles[index]; }
