// Vm runs a command in a virtual machine that has an RDMA device, made by the kernel's Soft-RoCE driver.
//
//	go run ./soft-roce/vm -- ibv_devinfo
//	go run ./soft-roce/vm -- go test ./verbs/...
//	go run ./soft-roce/vm -nodes 2 -netem 'delay 10ms reorder 25%' -- sh -c 'vm exec 1 ibv_rc_pingpong & ibv_rc_pingpong 10.77.0.2'
//
// It needs QEMU, and Debian's packages for the guest's kernel; no hardware virtualisation, no change to the host. The
// guest sees the host's files, read only, so every tool and library of the host is there. The guest has its own /tmp, /run
// and /dev/shm. The command runs as root in the working directory, with the environment of vm and
//
//	IBRUN_VM_NODE     0, the number of this node
//	IBRUN_VM_NODES    how many nodes there are, 1 or 2
//	IBRUN_VM_ADDRS    their IPv4 addresses, with commas between them
//	IBRUN_LIVE        the same as IBRUN_VM_NODES: live tests must not be skipped
//	PATH              begins with a directory that has vm and ibrun, built from this source
//
// A command that begins with "go test" is built on the host, and its test programs run in the guest with
// -test.count=1, each in the directory of its package.
//
// From the command, "vm exec 1 CMD..." runs something on node 1 and ends with its exit code; each line of its output
// begins with "[n1] ", except with "vm exec -raw". Several may run concurrently. Killing vm exec kills the program on node 1.
//
// Standard input goes to the command. Its standard output and standard error arrive as they were written. The exit
// code is the command's, 128+N if signal N killed it, 1 for a go test that failed; 2 if vm was used wrongly, 124 if the
// timeout expired, 125 if the guest could not be started or failed, 130 after Ctrl-C.
package main
