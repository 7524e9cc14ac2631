// Package pmi speaks PMI-1, the process management interface that MPICH's hydra, Intel MPI, Flux, Slurm's pmi2
// plugin and ibrun offer to the processes they start: who am I, how many are we, a small key-value space, and a
// barrier.
//
// A process asks its launcher through a [Client]; the launcher answers with a [Server]. To tell everybody an address:
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
// Where each node of a job has a server of its own, an [Exchange] joins them: a barrier takes one [Parcel] from each node
// and one to it, with all that was put.
//
// Messages are lines of words, cmd=NAME key=value ...; the client sends one and the server answers it. What servers
// cannot do shapes the client: Slurm takes each command from one read, of 64 bytes for init and 1024 for all
// others, so the client writes each with one write, shorter than that, and never a second before the answer. Slurm
// knows no escapes, so keys and values are plain words and blobs travel as hex, over several keys where one is too
// small. Nothing put is sure to be seen by others before a barrier.
//
// Environment, as the launcher sets it: PMI_FD with PMI_RANK and PMI_SIZE, or PMI_PORT (host:port) with PMI_ID.
package pmi
