// Package link creates, lists and removes Soft-RoCE devices: the kernel's driver rxe makes RDMA available on any network
// device.
//
//	err := link.Add("rxe0", "eth0") // needs root
//	...
//	links, err := link.List()
//	fmt.Println(links[0].Name, links[0].Netdev) // rxe0 eth0
//	...
//	err = link.Delete("rxe0")
//
// Add is equivalent to `rdma link add rxe0 type rxe netdev eth0` of iproute2. It sends the same netlink messages, but its
// errors name the cause. A link exists until it is deleted or the machine reboots; it outlives the program.
//
// All functions may be called concurrently.
package link
