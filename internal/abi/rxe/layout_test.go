package rxe

import (
	"testing"

	"github.com/ibrun/ibrun/internal/abi/layout"
)

func TestLayout(t *testing.T) {
	layout.Check(t, "rdma/rdma_user_rxe.h")
}
