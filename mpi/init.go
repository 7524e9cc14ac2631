package mpi

import (
	"context"

	"github.com/ibrun/ibrun/mpi/internal/core"
)

// Init joins the job that a launcher started, and opens the World Model. Without a launcher it creates a world of one
// process. It returns when the process can communicate; ctx bounds the wait for the other processes. If the launcher
// does not speak a supported PMI protocol, Init fails, and the error contains the command to use instead.
// MPI-5.0 §11.2.1.
func Init(ctx context.Context, c *Config) (*Process, error) { return process(core.Init(ctx, c.core())) }

// Join is Init without the World Model: the process has no World and no Self, but can open sessions, and later the
// World Model. It returns when all processes of the job have called Join or Init. Leave is its counterpart. In C the
// library joins the job implicitly; here no state is global. Not in MPI-5.0.
func Join(ctx context.Context, c *Config) (*Process, error) { return process(core.Join(ctx, c.core())) }

// InitWorld opens the World Model in a process that has joined the job without it. World and Self are set when it
// returns. It does not wait for other processes, and can be called once. Sessions may be open before, during and
// after the World Model. It fails with ErrProcFailed if a process of the job is known to be lost or to have left.
// MPI-5.0 §11.2.1.
func (p *Process) InitWorld() error { return public(p.core().InitWorld()) }

// Leave is the counterpart of Join. The process leaves the job for good as soon as it has neither an open session nor
// the World Model. Leave does not wait for other processes. It does nothing when called again or after Init. Because
// of a panic it does what [Process.Finalize] does then. Not in MPI-5.0.
func (p *Process) Leave() error { return public(p.core().Leave()) }

// Finalize ends the World Model. It is collective over World: it returns when every process has called it and every
// sent message has left. No other call of the World Model may be in progress or follow. A second Finalize does
// nothing. Sessions remain open. What other processes still expect of this one in the World Model, such as a message
// or a Barrier, fails there with ErrProcFailed. A request that is in progress here completes if it can; otherwise it
// fails with ErrProcFailed or ErrComm.
//
// Attributes are deleted first, while everything still works and Finalized reports false: those of Self in reverse
// order of setting, then those of the other communicators, the newest communicator first. Callbacks may free and
// create communicators; the attributes of the latter are deleted last. If callbacks fail, Finalize continues and
// joins their errors to its own.
//
// A Finalize in a deferred function that runs because of a panic or of [runtime.Goexit] does nothing and returns an
// error at once, so that the panic ends the process and is printed; error handlers do not get this error. If the
// function main has called Goexit, Finalize aborts the job with code 2. A program that recovers the panic may call
// Finalize again after the function that has recovered it has returned, not within it. MPI-5.0 §11.2.2.
func (p *Process) Finalize() error { return public(p.core().Finalize()) }

// Finalized reports whether Finalize was called and has run the callbacks of attributes. MPI-5.0 §11.4.1.
func (p *Process) Finalized() bool { return p.core().Finalized() }
