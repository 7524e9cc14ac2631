// Package launch runs one job: it plans which rank runs where, builds programs that are Go source, and starts the ranks on this
// machine and, together with the ibruns of other nodes, on all nodes. No process of the job is left when it has ended.
//
// Four kinds of processes take part:
//
//	ibrun ──orders──▶ agent ──PMI, IBRUN_FD, pipes──▶ ranks and their descendants
//	      ◀──events──
//
// [Run] is ibrun. [Agent] is ibrun executed again in a session of its own, as the parent of the ranks. [Watch] is ibrun executed
// again as the parent of the agent. The packages below this one have one subject each:
//
//	coordinator  what ibrun does while the job runs: nodes, orders and events, the first failure, the exit code
//	watcher      the process between ibrun and its agent: starts builds and the agent, and ends what they leave
//	remote       starts ibrun on the other hosts
//	agent        the agent: starts, binds, signals and kills ranks, serves PMI, forwards output
//	monitor      samples the ranks: status server, hang view, progress, metrics, traces and profiles
//	protocol     the messages between ibrun, its agent and other nodes
//	perfmem      the shared memory in which ranks record what they do
//	proctree     the processes below a process: signals, kills and reaps them
//	outbox       writes to streams whose reader may be slow, without making the sender wait
//	output       merges the output of several processes line by line
//	console      ibrun's standard streams, and signals of the user
//	message      the messages of ibrun itself, as text and as JSON
//	exitcode     ibrun's exit codes
//
// The command line is converted once to a job. A package below this one declares the settings that
// it needs, and gets them from the job; none of them knows the flags. Nobody writes settings after
// they were passed: who finds more about the job, for instance its hosts, returns another one.
//
// On several nodes, ibrun is started on each of them by any tool that can start a program there.
// The ibruns of the other nodes, the workers, connect to that of node 0, the coordinator (package
// control), which then controls the job: see package coordinator. Each agent serves PMI to its own
// ranks. What concerns other nodes travels with the events and orders, once for each node and
// barrier. Each node prints its own ranks' output. Any node answers ibrun ps, top and hang for all
// ranks, since the monitors query each other. Every node derives the job's secret from the secret
// file and a random number of the coordinator, so the secret is not sent.
//
// The watcher and the agent are subreapers: a process whose parent has died becomes their child. So nothing that a rank starts
// can leave the tree below them, whatever setsid and double forks it uses. ibrun and the agent watch each other by their socket.
// If ibrun dies, the agent and the watcher kill everything below them and exit. If the agent dies, its ranks die with it
// (PR_SET_PDEATHSIG), their descendants become the watcher's children, and the watcher kills them. If both die, the watcher does
// the same, and removes their files. If the watcher dies, ibrun ends the job. ibrun itself adopts no processes and kills none but
// these.
package launch
