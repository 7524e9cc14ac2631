// Package ranklink is what ibrun tells a rank besides PMI, and what it hears from it: a packet socket whose descriptor
// the rank inherits under the number in IBRUN_FD.
//
// The agent that starts a rank makes a pair, sends [Hello] before the rank runs, and gives the rank its end:
//
//	link, rankEnd, err := job.Pair()
//	err = link.Send(job.KindHello, &job.Hello{JobID: "j1", Rank: 3, Size: 8})
//	cmd.ExtraFiles, cmd.Env = []*os.File{rankEnd}, append(env, "IBRUN_FD=3")
//	...
//	m, err := link.Recv(ctx) // what the rank says; io.EOF when it has gone
//
// The rank reads it at start. Without IBRUN_FD all three results are nil:
//
//	link, hello, err := job.FromEnv(os.Getenv)
//
// A packet is one message: one byte kind, one byte version, then a JSON value or nothing, at most [MaxPacket]
// bytes. Receivers skip kinds and versions they do not know, and JSON fields they do not know, so that an old rank
// runs under a new ibrun and the other way round. The set-up path uses this and nothing that must be fast.
package ranklink
