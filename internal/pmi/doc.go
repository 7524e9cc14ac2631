// Package pmi implements PMI-1, the process management interface that MPICH's hydra, Intel MPI, Flux, Slurm's pmi2
// plugin and ibrun offer to the processes they start. It gives a process its rank, the size of the job, a small key-value space,
// and a barrier.
//
// A process uses a [Client]; its launcher runs a [Server]. To publish an address and to read that of another process:
//
//	c, err := pmi.FromEnv(os.Getenv) // nil, nil: no launcher, a world of one
//	err = c.PutBlob(fmt.Sprintf("addr-%d", c.Rank()), addr)
//	err = c.Barrier(ctx)
//	peer, err := c.GetBlob("addr-1")
//	err = c.Finalize()
//
// and in the launcher, with one end of a stream socket pair per process and the other passed on as PMI_FD:
//
//	s, err := pmi.NewServer(pmi.Job{Size: 2, KVSName: "job1", Events: pmi.Events{Lost: lost}})
//	go s.Serve(0, conn0)
//	go s.Serve(1, conn1)
//
// If each node of a job has its own server, an [Exchange] connects them. A barrier then takes one [ExchangeMessage] from each
// node and one to it. These messages also carry the keys and values.
//
// Messages are lines of words, cmd=NAME key=value ...; the client sends one and the server answers it. The client respects the
// limits of all servers. Slurm expects each command in one read, of 64 bytes for init and 1024 bytes for all others. So the
// client sends each command in one shorter write, and never sends a second one before the answer. Slurm does not know escapes.
// So keys and values are plain words, and blobs are sent as hex digits, distributed over several keys if they do not fit one. A
// value is guaranteed to be visible to other processes only after a barrier.
//
// The launcher sets these environment variables: PMI_FD with PMI_RANK and PMI_SIZE, or PMI_PORT (host:port) with PMI_ID.
package pmi
