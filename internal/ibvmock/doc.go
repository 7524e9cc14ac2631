// Package ibvmock is a libibverbs for tests: a library in C that has the functions of libibverbs.so.1, and devices in memory that
// behave like adapters which the machine does not have. Programs cannot tell it from the real library. It is compiled by gcc
// against the installed header files, so its structs are those of the real library.
//
//	lib := ibvmock.Load(t)             // compiles it once, and loads it into this process
//	dev := lib.NewDevice("mlx5_vf")    // a virtual function of a ConnectX adapter
//	ctx, err := verbstest.OpenLibrary(dev)
//	...
//	lib.Refuse("ibv_create_qp", 2, 1, syscall.ENOMEM) // the third call from now fails
//	lib.Set("flush_late", 5)           // completions of failed queue pairs appear after five polls
//	lib.SetPortState(dev.Name, false)  // the cable is pulled, which raises an event
//
// A test without gcc or the header files is skipped with the reason; in CI it fails.
//
// # Profiles
//
// A profile is a kind of device: its limits, and how its driver behaves. [Profiles] lists them. All devices of a network reach
// each other if their link layers, addresses and partitions allow it.
//
// # Processes
//
// Load works because the dynamic linker finds a loaded library by its SONAME. A program that is started by a test loads the
// library if LD_LIBRARY_PATH names the directory that [Build] returns. Its devices come from the environment, see [Environment].
// These variables set its behaviour:
//
//	IBVMOCK_SET=late=3,speed=16       what [Library.Set] sets
//	IBVMOCK_REFUSE=ibv_create_srq=95  refuses calls of functions with an errno: all, or with =95:2:1 the third, or with
//	                                  =95:2:1:mlx5_0 the third for this device
//	IBVMOCK_NODE=b                    the node: processes of one node have the same devices
//
// Variables for those who change the library:
//
//	IBVMOCK_WITHOUT=ibv_reg_mr_iova2              the library lacks functions, as an old one does
//	IBVMOCK_CFLAGS=-fsanitize=address,undefined   more flags for the compiler; LD_PRELOAD must name the sanitizer's library
//
// A program that lists devices itself, such as ibrun, runs on a [Node]: in a mount namespace in which /sys/class/infiniband and
// /dev/infiniband have the devices.
//
//	network := ibvmock.NewNetwork(t)
//	a := network.NewNode("a", "mlx5_0=mlx5_ib,mlx5_1=mlx5_roce@1") // two adapters, attached to two fabrics
//	b := network.NewNode("b", "mlx5_0=mlx5_ib")
//	out, err := a.Command("ibrun", "doctor").Output()
//	b.Set("mlx5_0", "state", 1) // the cable is pulled
//
// Processes that share a network map the same segment, which holds all queues. A message is copied by the process that posts it,
// directly into the memory of the receiver.
package ibvmock
