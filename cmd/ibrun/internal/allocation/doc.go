// Package allocation finds the hosts that a job may use, and how many ranks each has room for.
//
//	a, err := allocation.Find(allocation.Options{Hosts: "n1:2,n2:2"}, os.Getenv, "n1")
//	fmt.Println(a.Hosts[1].Name, a.Hosts[1].Slots, a.Here) // n2 2 true
//
// Sources of hosts, the first that is given counts: the options of the user; the host file that a variable of another launcher
// names, as Kubernetes' mpi-operator sets them; and the variables of a scheduler: Slurm, PBS or LSF. Nothing is started and no
// host is contacted: the package reads variables and files only.
package allocation
