package mpi

import "github.com/ibrun/ibrun/mpi/internal/core"

// Sendrecv sends sx and receives into rx at the same time. The two must not overlap. MPI-5.0 §3.11.
func Sendrecv[S, R any](c *Comm, sx []S, dst, stag int, rx []R, src, rtag int) (Status, error) {
	if !core.IsPlain[S](c.core()) || !core.IsNumber[R]() {
		return c.Sendrecv(elements("Sendrecv", sx), dst, stag, elements("Sendrecv", rx), src, rtag)
	}
	return status(c.core().Sendrecv(core.Bytes(sx), dst, stag, core.Bytes(rx), src, rtag))
}

// Sendrecv is [Sendrecv] of two views. They may be parts of the same slice, such as two columns of a matrix, but must not have
// elements in common. MPI-5.0 §3.11.
func (c *Comm) Sendrecv(sv View, dst, stag int, rv View, src, rtag int) (Status, error) {
	if err := firstError(&sv, &rv); err != nil {
		return failedStatus(c, "Sendrecv", err)
	}
	return status(c.core().SendrecvData(&sv.data, dst, stag, &rv.data, src, rtag))
}

// SendrecvReplace sends the data of a view, and receives into it. MPI-5.0 §3.11.
func (c *Comm) SendrecvReplace(v View, dst, stag, src, rtag int) (Status, error) {
	if v.err != nil {
		return failedStatus(c, "SendrecvReplace", v.err)
	}
	return status(c.core().SendrecvReplace(&v.data, dst, stag, src, rtag))
}
