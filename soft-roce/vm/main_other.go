//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	if _, err := parse(os.Args[1:], os.Stderr); err == nil {
		fmt.Fprintln(os.Stderr, "vm: this needs Linux on x86-64 with QEMU, and Debian's packages for the guest's kernel")
	}
	os.Exit(codeUse)
}
