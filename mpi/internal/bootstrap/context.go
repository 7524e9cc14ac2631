package bootstrap

import "context"

// contextKey is the key of a Process in a context.
type contextKey struct{}

// WithProcess returns a context that makes mpi.Init and mpi.Join use p instead of the environment. Package mpitest starts
// many processes of MPI in one process of the system this way.
func WithProcess(ctx context.Context, p *Process) context.Context {
	return context.WithValue(ctx, contextKey{}, p)
}

// FromContext returns the Process that WithProcess has put into ctx, or nil.
func FromContext(ctx context.Context) *Process {
	p, _ := ctx.Value(contextKey{}).(*Process)
	return p
}
