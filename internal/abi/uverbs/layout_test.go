package uverbs

import (
	"testing"

	"github.com/ibrun/ibrun/internal/abi/layout"
)

func TestLayout(t *testing.T) {
	layout.Check(t, "rdma/ib_user_verbs.h", "rdma/ib_user_ioctl_verbs.h", "rdma/ib_user_ioctl_cmds.h",
		"rdma/rdma_user_ioctl.h", "infiniband/verbs.h")
}
