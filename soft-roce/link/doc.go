// Package link makes, lists and removes Soft-RoCE devices: the kernel's driver rxe turns any network device into one
// for RDMA.
//
//	err := link.Add("rxe0", "eth0") // needs root
//	...
//	links, err := link.List()
//	fmt.Println(links[0].Name, links[0].Netdev) // rxe0 eth0
//	...
//	err = link.Delete("rxe0")
//
// It is what `rdma link add rxe0 type rxe netdev eth0` of iproute2 does, by the same netlink messages, with errors that
// say what is missing. A link lives until it is deleted or the machine starts anew, not as long as the program.
//
// All functions may be called concurrently.
package link
