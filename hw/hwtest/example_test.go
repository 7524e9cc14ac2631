package hwtest_test

import (
	"fmt"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/hw/hwtest"
)

// Two packages of two PUs. A name with braces describes several files.
func ExampleFromText() {
	tree, err := hwtest.FromText([]byte(`
-- sys/devices/system/cpu/online --
0-3
-- sys/devices/system/cpu/cpu{0,1}/topology/physical_package_id --
0
-- sys/devices/system/cpu/cpu{2,3}/topology/physical_package_id --
1
-- sys/devices/system/cpu/cpu{0,1}/topology/package_cpus_list --
0-1
-- sys/devices/system/cpu/cpu{2,3}/topology/package_cpus_list --
2-3
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	top, err := hw.Read(tree)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range top.Packages {
		fmt.Println("package", p.ID, "has PUs", hw.FormatList(p.PUs))
	}
	// Output:
	// package 0 has PUs 0-1
	// package 1 has PUs 2-3
}
