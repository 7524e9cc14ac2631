package cli

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/cli/foreign"
)

// spelling is a command line in the flags of another launcher. Exactly one of same and refused is set, or both are empty.
type spelling struct {
	line    string
	same    string // the same in flags of ibrun
	note    string // a part of the note that -v prints
	refused string // a part of the error
}

// spellings has a line for each row of the table: see TestSpellings.
func spellings() []spelling {
	return slices.Concat(programSpellings(), hostSpellings(), placementSpellings(), outputSpellings(), endSpellings(),
		launcherSpellings(), slurmSpellings(), torchrunSpellings())
}

func programSpellings() []spelling {
	return []spelling{
		{line: "-n 4 p", same: "-n 4 p"},
		{line: "-n4 p", same: "-n=4 p"},
		{line: "-np 4 p", same: "-np 4 p"},
		{line: "--np=4 p", same: "--np=4 p"},
		{line: "--ntasks 4 p", same: "-n=4 p"},
		{line: "--ntasks=4 p", same: "-n=4 p"},
		{line: "--ntasks=four p", refused: "--ntasks=four: not a number"},
		{line: "--ntasks four p", refused: "--ntasks four: not a number"},
		{line: "-c 4 --mca btl tcp p", same: "-n=4 --transport=tcp p"},
		{line: "-c 4 --ntasks 2 p", same: "--cpus-per-rank=4 -n=2 p"},
		{line: "-c4 --ntasks 2 p", same: "--cpus-per-rank=4 -n=2 p"},
		{line: "-c 4 p",
			refused: "flag -c has several meanings: the number of ranks in Open MPI (write -n N); the number of cores of " +
				"each rank in Slurm (write --cpus-per-rank N)"},
		{line: "-wdir /d p", same: "-wdir /d p"},
		{line: "-wd /d p", same: "--wdir=/d p"},
		{line: "--chdir=/d p", same: "--wdir=/d p"},
		{line: "-D /d p", same: "--wdir=/d p"},
		{line: "-D 2 p",
			refused: "flag -D has several meanings: the working directory in Slurm (write --wdir DIR); a level of debugging " +
				"in MPICH"},
		{line: "--set-cwd-to-session-dir p", refused: "write --wdir DIR"},
		{line: "-x A=1 p", same: "-x=A=1 p"},
		{line: "-x SET p", same: "-x=SET p"},
		{line: "-x S* p", same: "p", note: "-x S* has no effect: ranks get the whole environment"},
		{line: "-x node3 --ntasks 2 p", refused: "write --hosts with the hosts to use"},
		{line: "-env A 1 p", same: "-x=A=1 p"},
		{line: "-env A=1 p", same: "-x=A=1 p"},
		{line: "-env A=1=2 p", same: "-x=A=1=2 p"},
		{line: "-env=A=1 p", same: "-x=A=1 p"},
		{line: "--env SET p", same: "--env SET p"},
		{line: "-env A", refused: "-env needs a value: -env NAME VALUE"},
		{line: "-genv A 1 -n 1 p : -n 1 -env A 2 q", same: "-x=A=1 -n 1 p : -x=A=1 -n 1 -x=A=2 q"},
		{line: "-n 1 p : -n 1 -genv A=1 q", same: "-x=A=1 -n 1 p : -x=A=1 -n 1 q"},
		{line: "-envall p", same: "p", note: "whole environment"},
		{line: "-genvnone p", refused: `env -i PATH="$PATH" ibrun`},
		{line: "-envnone p", refused: `env -i PATH="$PATH" ibrun`},
		{line: "-envlist A,B p", refused: `env -i PATH="$PATH" NAME="$NAME" ibrun`},
		{line: "--export=ALL p", same: "p", note: "whole environment"},
		{line: "--export ALL,A=1,SET,B= p", same: "-x=A=1 -x=B= p"},
		{line: "--export=NONE p", refused: `env -i PATH="$PATH" ibrun`},
		{line: "--export=A=1 p", refused: "write --export=ALL,A=1"},
		{line: "--export=ALL,=1 p", refused: "needs a name"},
		{line: "-E p", same: "p", note: "whole environment"},
		{line: "--export-file f p", refused: "env $(cat f) ibrun"},
		{line: "--unset-env A p", refused: "env -u A ibrun"},
		{line: "--prepend-env P /x p", refused: `-x P="/x:$P"`},
		{line: "--append-env P /x p", refused: `-x P="$P:/x"`},
		{line: "--prefix /opt p", refused: `LD_LIBRARY_PATH="/opt/lib:$LD_LIBRARY_PATH"`},
		{line: "--noprefix p", same: "p", note: "no paths"},
		{line: "-path /x p", refused: `env PATH="/x:$PATH"`},
		{line: "-umask 077 p", refused: "(umask 077; ibrun ...)"},
		{line: "--app testdata/app", same: `-np 2 -x=A=1 a "b c" : --n 1 --wdir=/ c`},
		{line: "--app testdata/missing", refused: "--app testdata/missing: open testdata/missing: no such file"},
		{line: "--app testdata/app p", refused: "leave out p"},
		{line: "-n 2 --app testdata/app", refused: "write -n into it"},
		{line: "-configfile testdata/config", same: "-x=G=1 -l -n 2 a b : -x=G=1 -n 1 c : -x=G=1 -n 1 -x=A=1 d"},
		{line: "-n 4 --multi-prog testdata/tasks", same: "-n=1 a 0 : -n=1 c d : -n=1 a 1 : -n=1 c d"},
		{line: "-n 4 -l -x A=1 --multi-prog testdata/tasks e",
			same: "-l -n=1 -x=A=1 a 0 e : -n=1 -x=A=1 c d e : -n=1 -x=A=1 a 1 e : -n=1 -x=A=1 c d e"},
		{line: "--multi-prog", refused: "--multi-prog: the file is missing: --multi-prog FILE"},
		{line: "--multi-prog testdata/tasks",
			refused: "testdata/tasks:3:1: * stands for the other ranks: say with -n how many"},
	}
}

func hostSpellings() []spelling {
	return []spelling{
		{line: "-H a,b:2 p", same: "--hosts=a:1,b:2 p"},
		{line: "--host=a:*,n[1,3],[::1]:2,::1 p", same: "--hosts=a,n[1,3]:1,[::1]:2,[::1]:1 p"},
		{line: "-hosts a,b:2 p", same: "--hosts=a:1,b:2 p"},
		{line: "-w n[1-2] p", same: "--hosts=n[1-2] p"},
		{line: "--hostfile f p", same: "--hostfile=f p"},
		{line: "-machinefile f p", same: "--hostfile=f p"},
		{line: "-f f p", same: "--hostfile=f p"},
		{line: "-F f p", same: "--hostfile=f p"},
		{line: "--add-host a p", refused: "write --hosts"},
		{line: "--exclude a p", refused: "write --hosts"},
		{line: "--nolocal p", refused: "without this one"},
		{line: "-skip-launch-node p", refused: "without this one"},
		{line: "-N 2 --ntasks 4 p",
			refused: "-N is a flag of Slurm that ibrun does not have: ibrun uses all nodes of the allocation: leave it out"},
		{line: "-N 2 --oversubscribe -npernode 2 --mca btl tcp p",
			same: "--ppn=2 --oversubscribe -npernode 2 --transport=tcp p",
			note: "--oversubscribe has no effect: more ranks than cores are allowed"},
		{line: "-N2 p", refused: "flag -N2 has several meanings: the number of nodes in Slurm (ibrun uses all nodes"},
		{line: "--nodes=2 p", refused: "leave it out"},
		{line: "-r 2 --ntasks 1 p", refused: "write -o OFFSET"},
		{line: "-r 3 --standalone p", refused: "write --output DIR/%r"},
		{line: "-r 3 p", refused: "flag -r has several meanings: the first node"},
		{line: "--relative 2 p", refused: "write -o OFFSET"},
		{line: "-launcher ssh p", same: "p", note: "ibrun finds the scheduler itself"},
		{line: "-launcher rsh p", refused: "write --launch-agent CMD"},
		{line: "-launcher-exec /bin/rsh p", same: "--launch-agent=/bin/rsh p"},
		{line: "--launch-agent /opt/orted p", refused: "--launch-agent is here the command that reaches a host"},
		{line: "-iface ib0 p", same: "--tcp-interfaces=ib0 p"},
		{line: "-enable-x p", refused: "ssh -X"},
		{line: "-disable-x p", same: "p", note: "X11"},
		{line: "-hybrid-hosts p", refused: "--copy"},
		{line: "--preload-binary p", same: "--copy p"},
		{line: "--bcast p", same: "--copy p"},
		{line: "--bcast=/tmp/x p", refused: "write --copy: ibrun chooses where"},
		{line: "--mca btl tcp -s p", same: "--transport=tcp --copy p"},
		{line: "--ntasks 2 -s p", same: "-n=2 p", note: "-s has no effect"},
		{line: "-genvall -s all p", refused: "rank 0 reads standard input"},
		{line: "-s p", refused: "flag -s has several meanings: to copy the program"},
		{line: "--send-libs p", refused: "-static"},
		{line: "--preload-files a p", refused: "scp"},
	}
}

func placementSpellings() []spelling {
	return []spelling{
		{line: "-ppn 2 p", same: "--ppn 2 p"},
		{line: "-grr 2 p", same: "--ppn=2 p"},
		{line: "-npernode 2 p", same: "--ppn 2 p"},
		{line: "--ntasks-per-node=2 p", same: "--ppn=2 p"},
		{line: "-pernode p", same: "--ppn=1 p"},
		{line: "-rr p", same: "--map-by=node p"},
		{line: "-npersocket 2 p", same: "--map-by=ppr:2:package p"},
		{line: "--ntasks-per-socket=2 p", same: "--map-by=ppr:2:package p"},
		{line: "--ntasks-per-core=2 p", same: "--map-by=ppr:2:core p"},
		{line: "--ppr 2:numa p", same: "--map-by=ppr:2:numa p"},
		{line: "--cpus-per-proc 2 p", same: "--cpus-per-rank 2 p"},
		{line: "--cpus-per-task=2 p", same: "--cpus-per-rank=2 p"},
		{line: "-tpp 2 p", same: "--cpus-per-rank 2 p"},
		{line: "-map-by numa p", same: "--map-by numa p"},
		{line: "-bynode p", same: "--map-by node p"},
		{line: "-byslot p", same: "--map-by slot p"},
		{line: "-bycore p", same: "--map-by core p"},
		{line: "-bysocket p", same: "--map-by package p"},
		{line: "-bynuma p", same: "--map-by numa p"},
		{line: "--rank-by slot p", same: "p", note: "order of slots"},
		{line: "--rank-by core p", refused: "write --map-by core"},
		{line: "-m cyclic p", same: "--map-by node p"},
		{line: "-m train p", refused: "python3 -m train"},
		{line: "--distribution=block:cyclic p", same: "--map-by package p"},
		{line: "-rankfile f p", same: "--rank-file f p"},
		{line: "-rankmap 0,1 p", refused: "--rank-file"},
		{line: "-bind-to core p", same: "--bind-to core p"},
		{line: "-binding cell p", refused: "--bind-to core"},
		{line: "-bind-to-none p", same: "--bind-to none p"},
		{line: "-bind-to-core p", same: "--bind-to core p"},
		{line: "-bind-to-socket p", same: "--bind-to package p"},
		{line: "--cpu-bind=verbose,cores p", same: "--bind-to core --report-bindings p"},
		{line: "--cpu-set 0-3 p", refused: "taskset -c 0-3 ibrun"},
		{line: "--use-hwthread-cpus p", same: "--map-by hwthread --bind-to hwthread p"},
		{line: "--mem-bind=v,local p", same: "p", note: "near the cores"},
		{line: "--mem-bind=map_mem:0 p", refused: "numactl"},
		{line: "-membind firsttouch p", same: "p", note: "near the cores"},
		{line: "--oversubscribe p", same: "--oversubscribe p", note: "more ranks than cores are allowed"},
		{line: "--nooversubscribe p", same: "--nooversubscribe p"},
		{line: "-O p", same: "p", note: "more ranks than cores are allowed"},
		{line: "--share p", same: "p", note: "shares cores"},
		{line: "--report-bindings p", same: "--report-bindings p"},
		{line: "--display-map p", same: "--report-bindings p"},
		{line: "--display-devel-map p", same: "--report-bindings p"},
		{line: "--display bindings p", same: "--report-bindings p"},
		{line: "--display-topo p", refused: "ibrun topo"},
		{line: "-print-rank-map p", same: "--report-bindings p"},
	}
}

func outputSpellings() []spelling {
	return []spelling{
		{line: "-prepend-rank p", same: "--label p"},
		{line: "-l p", same: "--label p"},
		{line: "--label p", same: "--label p"},
		{line: "--tag-output p", same: "--label p"},
		{line: "--tag-output=true p", same: "--label p"},
		{line: "--tag-output=9 p", refused: "the flag has no value"},
		{line: "-prepend-pattern %r p", refused: "write --label"},
		{line: "--timestamp-output p", refused: "| ts "},
		{line: "-ordered-output p", refused: "sort -s"},
		{line: "-output-from 2 p", refused: `grep '^\[2\]'`},
		{line: "--output tag p", same: "--label p"},
		{line: "--output tag,timestamp p", refused: "| ts '%FT%T'"},
		{line: "--output tag-detailed p", refused: "write --label"},
		{line: "--output merge-stderr-to-stdout p", refused: "2>&1"},
		{line: "--output dir=d:copy p", refused: "write --output d/%r"},
		{line: "--output xml p", refused: "a file of this name is ./xml"},
		{line: "--output ./tag p", same: "--output ./tag p"},
		{line: "--output o.%t.%N.%% p", same: "--output=o.%r.%h.%% p"},
		{line: "--output o.%j p", refused: "%j has no counterpart"},
		{line: "--output o.%r p", same: "--output o.%r p"},
		{line: "-o o.%t p", same: "--output=o.%r p"},
		{line: "-o all.txt p", same: "--output=all.txt p"},
		{line: "-o none p", refused: ">/dev/null"},
		{line: "-o 4 p", same: "--offset=4 p"},
		{line: "-o4 p", same: "--offset=4 p"},
		{line: "-e f p", refused: "--output PATTERN"},
		{line: "-outfile-pattern f p", refused: "--output PATTERN"},
		{line: "--output-filename d p", refused: "write --output d/%r"},
		{line: "--merge-stderr-to-stdout p", refused: "2>&1"},
		{line: "--xml p", refused: "--report=FILE.json"},
		{line: "--xml-file f p", refused: "--report=FILE.json"},
		{line: "-i 0 p", same: "p", note: "rank 0 reads"},
		{line: "--input f p", refused: "ibrun ... <f"},
		{line: "--input=none p", refused: "</dev/null"},
		{line: "--stdin 0 p", same: "p", note: "rank 0 reads"},
		{line: "--stdin all p", refused: "only rank 0"},
		{line: "--stdin 3 p", refused: "only rank 0"},
		{line: "-u p", same: "p", note: "forwards lines"},
		{line: "--pty p", refused: "no terminal"},
		{line: "-verbose p", same: "-v p"},
		{line: "-vvv p", same: "-v p"},
		{line: "--quiet p", same: "p", note: "nothing is wrong"},
		{line: "-Q p", same: "p", note: "nothing is wrong"},
		{line: "--mca btl tcp -q p", same: "--transport=tcp p", note: "nothing is wrong"},
		{line: "--ntasks 1 -q low p", refused: "give it to salloc or sbatch"},
		{line: "-q p", refused: "flag -q has several meanings: to print less in Open MPI (leave it out); the quality of service"},
		{line: "-V p", refused: "version requested"},
		{line: "--version", refused: "version requested"},
		{line: "--usage", refused: "help requested"},
		{line: "-info", refused: "version requested"},
	}
}

func endSpellings() []spelling {
	return []spelling{
		{line: "--timeout 1:02:03 p", same: "--timeout=3723s p"},
		{line: "--timeout 1:2:3:4:5 p", refused: "want a time such as 1:30:00"},
		{line: "--timeout 1:x p", refused: `"x" is not a number`},
		{line: "--timeout 0:0 p", same: "p", note: "there is no limit"},
		{line: "-maxtime 90 p", same: "--timeout=90 p"},
		{line: "--time 90 p", same: "--timeout=5400s p"},
		{line: "--time=1:30 p", same: "--timeout=90s p"},
		{line: "--time=1:00:30 p", same: "--timeout=3630s p"},
		{line: "--time=1-1 p", same: "--timeout=90000s p"},
		{line: "--time=1-0:1 p", same: "--timeout=86460s p"},
		{line: "--time=1-0:0:1 p", same: "--timeout=86401s p"},
		{line: "--time=0 p", same: "p", note: "there is no limit"},
		{line: "--time=UNLIMITED p", same: "p", note: "there is no limit"},
		{line: "--time=1:2:3:4 p", refused: "too many numbers"},
		{line: "--time=99999999 p", refused: "not a number from 0 to"},
		{line: "--time=soon p", refused: "want a time such as 90 (minutes)"},
		{line: "-t 1:30:00 p", same: "--timeout=5400s p"},
		{line: "-t 10 --ntasks 2 p", same: "--timeout=600s -n=2 p"},
		{line: "-t 3 --standalone p", refused: "write --output DIR/%r"},
		{line: "-t 3 p",
			refused: "flag -t has several meanings: a limit of time in Slurm (write --timeout MINUTESm); which streams"},
		{line: "--get-stack-traces p", refused: "ibrun hang"},
		{line: "-K p", same: "p", note: "ends the job when a rank fails"},
		{line: "--kill-on-bad-exit=1 p", same: "p", note: "ends the job when a rank fails"},
		{line: "--kill-on-bad-exit=0 p", refused: "ends the job when a rank fails"},
		{line: "--no-kill p", refused: "ends the job when a rank fails"},
		{line: "-W 5 p", refused: "--failure-grace"},
		{line: "--disable-recovery p", same: "p", note: "ends the job when a rank fails"},
		{line: "--enable-recovery p", refused: "ends the job when a rank fails"},
		{line: "--max-restarts 0 p", same: "p", note: "does not restart"},
		{line: "--max-restarts 3 p", refused: "restart the job"},
		{line: "-disable-auto-cleanup p", refused: "ends the job when a rank fails"},
		{line: "-print-all-exitcodes p", refused: "leave it out"},
		{line: "--report-child-jobs-separately p", same: "p", note: "no further ranks"},
		{line: "--forward-signals USR1 p", refused: "leave it out"},
		{line: "-X p", same: "p", note: "first SIGINT"},
		{line: "--quit-on-interrupt p", same: "p", note: "first SIGINT"},
		{line: "--do-not-launch p", same: "--dry-run p"},
		{line: "--test-only p", same: "--dry-run p"},
	}
}

func launcherSpellings() []spelling {
	return []spelling{
		{line: "--allow-run-as-root p", same: "p", note: "--allow-run-as-root has no effect: ibrun runs for every user"},
		{line: "--mca btl self,vader,tcp p", same: "--transport=shm,tcp p"},
		{line: "-mca btl ^openib p", same: "--transport=shm,tcp p"},
		{line: "--mca btl ^self,vader,openib,tcp p", refused: "no transport is left"},
		{line: "--mca btl pigeon p", refused: `unknown transport "pigeon"`},
		{line: "--mca pml ob1 p", same: "p", note: "--mca pml ob1 has no effect"},
		{line: "--mca pml ucx p", same: "p", note: "--mca pml ucx has no effect: ibrun uses RDMA"},
		{line: "--mca pml v p", refused: "write --transport LIST"},
		{line: "--gmca btl_tcp_if_include eth0 p", same: "--tcp-interfaces=eth0 p"},
		{line: "--mca btl_tcp_if_exclude lo,docker0 p", same: "--tcp-interfaces=^lo,^docker0 p"},
		{line: "--mca plm_rsh_agent rsh p", same: "--launch-agent=rsh p"},
		{line: "--mca orte_default_hostfile f p", same: "--hostfile=f p"},
		{line: "--mca rmaps_base_oversubscribe 1 p", same: "p", note: "ibrun does so anyway"},
		{line: "--mca rmaps_base_oversubscribe 0 p", refused: "write --map-by"},
		{line: "--mca plm_rsh_no_tree_spawn 1 p", same: "p", note: "detail of Open MPI"},
		{line: "--mca coll tuned p",
			refused: "coll is a parameter of Open MPI, whose programs ibrun does not connect: leave it out"},
		{line: "--tune f p", refused: "--transport"},
		{line: "-am f p", refused: "--transport"},
		{line: "--personality ompi p", same: "p", note: "every program"},
		{line: "--runtime-options x p", refused: "--dry-run"},
		{line: "--with-ft ulfm p", refused: "ends the job"},
		{line: "--debug p", refused: "--gdb RANKS"},
		{line: "--debugger x p", refused: "--gdb RANKS"},
		{line: "-xterm 1 p", refused: "xterm -e gdb"},
		{line: "-gdba p", refused: "--gdb RANKS"},
		{line: "-tvsu p", refused: "--gdb RANKS"},
		{line: "--debug-devel p", refused: "-v prints"},
		{line: "-d --mca btl tcp p", refused: "flag -d has several meanings: to debug"},
		{line: "--mca btl tcp -d p", refused: "-v prints"},
		{line: "--ntasks 2 -d x p", refused: "give it to sbatch"},
		{line: "--report-pid f p", refused: "ibrun ps"},
		{line: "--novm p", same: "p", note: "no daemons"},
		{line: "--show-progress p", same: "p", note: "no daemons"},
		{line: "--index-argv-by-rank p", refused: "exec -a"},
		{line: "--ompi-server x p", refused: "do not connect"},
		{line: "--dvm p", refused: "leave it out"},
		{line: "-demux poll p", same: "p", note: "detail of MPICH"},
		{line: "-pmi-port p", same: "p", note: "detail of MPICH"},
		{line: "-order-nodes UP p", refused: "write --hosts"},
		{line: "-localhost a p", refused: "--node-name"},
		{line: "-usize 3 p", refused: "leave it out"},
		{line: "-nameserver h p", refused: "do not connect"},
		{line: "-gpus-per-proc 1 p", refused: "--map-by gpu"},
		{line: "-profile p", refused: "--pprof"},
		{line: "-trace libVT.so p", refused: "write --trace FILE.json"},
		{line: "-trace t.json p", same: "--trace t.json p"},
		{line: "--trace out p", same: "--trace out p"},
		{line: "-check_mpi p", same: "--check p"},
	}
}

func slurmSpellings() []spelling {
	return []spelling{
		{line: "--mpi=pmix p", same: "p", note: "connects its ranks itself"},
		{line: "--mpi=list p", refused: "PMI-1"},
		{line: "--overlap p", same: "p", note: "other steps"},
		{line: "--exclusive p", refused: "write -o OFFSET"},
		{line: "--exact=user p", refused: "write -o OFFSET"},
		{line: "--whole p", same: "p", note: "all cores"},
		{line: "--job-name x p", refused: "give it to salloc or sbatch"},
		{line: "-J x p", refused: "give it to salloc or sbatch"},
		{line: "--immediate=5 p", same: "p", note: "there already"},
		{line: "-I p", same: "p", note: "there already"},
		{line: "--hold p", refused: "give it to salloc or sbatch"},
		{line: "--gpus-per-task=1 p", refused: "--map-by gpu"},
		{line: "--gpu-freq=1 p", refused: "give it to salloc or sbatch"},
		{line: "--hint=nomultithread p", refused: "--bind-to core"},
		{line: "--task-prolog=f p", refused: "shell script"},
		{line: "--prolog=f p", refused: "shell script"},
		{line: "--propagate p", same: "p", note: "limits"},
		{line: "-T 4 p", same: "p", note: "detail of srun"},
		{line: "-Z p", refused: "leave it out"},
		{line: "--debugger-test p", refused: "leave it out"},
		{line: "--uid 5 p", refused: "setpriv"},
	}
}

func torchrunSpellings() []spelling {
	return []spelling{
		{line: "--nproc-per-node 4 p", same: "--ppn=4 p"},
		{line: "--nproc_per_node=gpu p", same: "--map-by=ppr:1:gpu p"},
		{line: "--nproc_per_node=cpu p", same: "--map-by=ppr:1:hwthread p"},
		{line: "--nproc_per_node=auto p", refused: "write gpu"},
		{line: "--nproc_per_node=x p", refused: `--nproc_per_node=x: invalid value "x"`},
		{line: "--nproc-per-node 2 train.py 3",
			refused: "torchrun starts Python itself, and ibrun does not: write python3 train.py"},
		{line: "--nproc-per-node 2 --no_python train.py", same: "--ppn 2 train.py", note: "itself"},
		{line: "--nproc-per-node 2 -- python3 train.py", same: "--ppn 2 python3 train.py"},
		{line: "--standalone p", same: "--node=0/1 p"},
		{line: "--nnodes 1 p", same: "--node=0/1 p"},
		{line: "--nnodes 1:1 p", same: "--node=0/1 p"},
		{line: "--nnodes 1:2 p", refused: "write --nnodes 2"},
		{line: "--nnodes two p", refused: "want a number of nodes"},
		{line: "--nnodes 2 p", refused: "write --hosts with the hosts, or --rendezvous HOST:PORT, --node K/2"},
		{line: "--nnodes 2 --node_rank 1 --master_addr h --master_port 7 --nproc_per_node 2 --secret-file f p",
			same: "--ppn=2 --secret-file f --rendezvous=h:7 --node=1/2 p"},
		{line: "--nnodes 2 --node-rank 0 --master-addr h --ppn 1 --secret-file f p",
			same: "--ppn 1 --secret-file f --rendezvous=h:29500 --node=0/2 p"},
		{line: "--node-rank 1 --nnodes 2 --rdzv-endpoint h:1 --ppn 1 --secret-file f p",
			same: "--ppn 1 --secret-file f --rendezvous=h:1 --node=1/2 p"},
		{line: "--node-rank 2 p", refused: "--node-rank 2: the job has one node"},
		{line: "--master-addr h --nnodes 2 p", refused: "write --node K/2, with K from 0 at the node of --rendezvous h:29500"},
		{line: "--master-port 5 p", same: "--node=0/1 p"},
		{line: "--rdzv-endpoint h --nnodes 3 p", refused: "--rendezvous h:29500"},
		{line: "--rdzv-backend c10d p", same: "--node=0/1 p"},
		{line: "--rdzv-id 5 p", same: "p", note: "secret file"},
		{line: "--rdzv-conf timeout=5 p", refused: "--join-timeout"},
		{line: "--monitor-interval 5 p", same: "p", note: "at once"},
		{line: "--start-method fork p", same: "p", note: "starts programs"},
		{line: "--role x p", refused: "--pset"},
		{line: "--module train", refused: "python3 -m train"},
		{line: "--no-python p", same: "p", note: "itself"},
		{line: "--run-path p", refused: "python3"},
		{line: "--log-dir d p", refused: "--output d/%r"},
		{line: "--redirects 3 p", refused: "--output DIR/%r"},
		{line: "--redirects 0 p", same: "p", note: "only shown"},
		{line: "--tee 3 p", refused: "| tee FILE"},
		{line: "--local-ranks-filter 0 p", refused: `grep '^\[0\]'`},
		{line: "--local-addr a p", refused: "--tcp-interfaces"},
		{line: "--numa-binding node p", refused: "--map-by"},
		{line: "--signals-to-handle x p", refused: "leave it out"},
		{line: "--event-log-handler x p", refused: "leave it out"},
	}
}

// environment are the variables of the tests.
var environment = LookupEnv([]string{"SET=s"})

// checkSpelling checks one line.
func checkSpelling(t *testing.T, c spelling) {
	t.Helper()
	got, err := Parse(strings.Fields(c.line), environment)
	if c.refused != "" {
		if err == nil || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%q: error %v, want %q", c.line, err, c.refused)
		}
		return
	}
	if words, err := Translate(strings.Fields(c.line)); err == nil {
		again, err := Translate(words)
		if err != nil || !slices.Equal(words, again) {
			t.Errorf("%q: became %q, and translated again %q, %v", c.line, words, again, err)
		}
	}
	want, errWant := Parse(strings.Fields(c.same), environment)
	if errWant != nil {
		t.Errorf("%q: same as %q, which is refused: %v", c.line, c.same, errWant)
		return
	}
	if err != nil {
		t.Errorf("%q: %v", c.line, err)
		return
	}
	if notes := strings.Join(got.Notes, "; "); !strings.Contains(notes, c.note) || (c.note == "") != (notes == "") {
		t.Errorf("%q: notes %q, want %q", c.line, notes, c.note)
	}
	got.Notes, want.Notes = nil, nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q:\n got %+v\nwant %+v", c.line, got, want)
	}
}

// TestSpellings: each line with flags of other launchers is what the table says, and each row of the table has a line.
func TestSpellings(t *testing.T) {
	lines := map[string]int{} // name: how many lines begin with it
	rows := map[string]int{}  // name: how many rows have it
	others := map[string][]string{}
	for _, row := range foreign.Table() {
		for _, name := range row.Names {
			rows[name]++
			others[name] = append(others[name], row.Names...)
		}
	}
	for _, c := range spellings() {
		for _, word := range strings.Fields(c.line) {
			name := strings.TrimLeft(word, "-")
			name, _, _ = strings.Cut(name, "=")
			if word[0] == '-' {
				lines[name]++
			}
		}
		checkSpelling(t, c)
	}
	for name, n := range rows {
		with := 0
		for _, other := range others[name] {
			with = max(with, lines[other])
		}
		if with < n {
			t.Errorf("%d rows of the table have the flag %s, but only %d lines of this test", n, name, with)
		}
	}
}
