// Package remote starts the ibruns of other hosts for the coordinator of a job.
//
//	starts := remote.Start(watcher, remote.Options{Hosts: hosts, Program: "/usr/bin/ibrun", Message: message})
//	for e := range starts.Events { ... } // Ready, Err or Note
//	starts.Close(time.Second)
//
// Every other node runs "ibrun node". The launch agent, a command such as ssh, starts it on one host; srun starts it on all hosts
// at once, in a step of the job:
//
//	coordinator ──▶ watcher ──▶ ssh a ibrun node     coordinator ──▶ watcher ──▶ srun ibrun node
//	                       └──▶ ssh b ibrun node
//
// The commands belong to a watcher and to sessions of their own. So the signals of a terminal do
// not reach them, and none is left if the coordinator is killed.
//
// What a login shell prints is skipped until "ibrun node" writes its greeting (protocol.Greeting).
// Then it gets the start message on its standard input, which stays open: its end says that the
// coordinator has died. After that the standard streams of a launch agent are the control
// connection. The nodes of a Slurm job connect by TCP.
//
// At most 16 launch agents connect at a time. Those that fail because a host is not known or not reachable yet are started again
// until the time for joining is over. All other failures are final: see diagnose.
package remote
