package debian

import (
	"debug/elf"
	"fmt"
	"slices"
	"strings"
)

// loadOrder returns the modules and all their dependencies, each module after its dependencies.
func loadOrder(modules []string, dependencies func(string) ([]string, error)) ([]string, error) {
	var order []string
	var add func(name string) error
	add = func(name string) error {
		if slices.Contains(order, name) {
			return nil
		}
		needed, err := dependencies(name)
		if err != nil {
			return err
		}
		for _, d := range needed {
			if err := add(d); err != nil {
				return err
			}
		}
		order = append(order, name)
		return nil
	}
	for _, m := range modules {
		if err := add(moduleName(m)); err != nil {
			return nil, err
		}
	}
	return order, nil
}

// moduleName returns the canonical name of a module: crc32-pclmul and crc32_pclmul are the same module.
func moduleName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// dependencies returns the names of the modules that must be loaded before this one, from the section .modinfo of the file.
func dependencies(file string) ([]string, error) {
	f, err := elf.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return nil, fmt.Errorf("%s is not a kernel module", file)
	}
	info, err := section.Data()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for field := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(field, "depends="); ok && list != "" {
			names := strings.Split(list, ",")
			for i := range names {
				names[i] = moduleName(names[i])
			}
			return names, nil
		}
	}
	return nil, nil
}
