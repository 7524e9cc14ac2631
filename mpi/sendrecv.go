package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Sendrecv sends sx and receives into rx at the same time. The two must not overlap. MPI-5.0 §3.11.
func Sendrecv[S, R any](c *Comm, sx []S, dst, stag int, rx []R, src, rtag int) (Status, error) {
	if !core.IsNumber[S]() || !core.IsNumber[R]() {
		return c.Sendrecv(elements("Sendrecv", sx), dst, stag, elements("Sendrecv", rx), src, rtag)
	}
	if c.core().IsChecked() {
		return status(c.core().SendrecvChecked(core.Bytes(sx), core.KindOf[S](), dst, stag,
			core.Bytes(rx), core.KindOf[R](), src, rtag))
	}
	return status(c.core().Sendrecv(core.Bytes(sx), dst, stag, core.Bytes(rx), src, rtag))
}
