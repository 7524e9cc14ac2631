package coordinator

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// networkFault returns what is wrong with this machine's network on the way to another node: the interface with the local
// address, or the route. It returns "" if the kernel reports no fault.
func networkFault(local, remote net.Addr) string {
	here, ok := local.(*net.TCPAddr)
	there, okRemote := remote.(*net.TCPAddr)
	if !ok || !okRemote || here.IP.IsLoopback() || here.IP.IsUnspecified() {
		return "" // a pipe, or both nodes are on this machine
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return ""
	}
	owner := ownerOf(here.IP, interfaces)
	switch {
	case owner == nil:
		return fmt.Sprintf("no interface of it has the address %v any more", here.IP)
	case owner.Flags&net.FlagUp == 0:
		return fmt.Sprintf("its interface %s (%v) is down", owner.Name, here.IP)
	case owner.Flags&net.FlagRunning == 0:
		return fmt.Sprintf("its interface %s (%v) has no carrier", owner.Name, here.IP)
	}
	// To connect a datagram socket sends nothing, but needs a route.
	probe, err := net.DialUDP("udp", nil, &net.UDPAddr{IP: there.IP, Port: there.Port, Zone: there.Zone})
	if errors.Is(err, syscall.ENETUNREACH) || errors.Is(err, syscall.EHOSTUNREACH) {
		return fmt.Sprintf("it has no route to %v", there.IP)
	}
	if err == nil {
		probe.Close()
	}
	return ""
}

// ownerOf returns the interface that has an address, nil if none has.
func ownerOf(ip net.IP, interfaces []net.Interface) *net.Interface {
	for i := range interfaces {
		addrs, err := interfaces[i].Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if in, ok := a.(*net.IPNet); ok && in.IP.Equal(ip) {
				return &interfaces[i]
			}
		}
	}
	return nil
}
