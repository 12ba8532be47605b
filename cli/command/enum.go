package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// addEnum adds a flag that accepts only some values, and completes them. Its default is the present value.
func addEnum(cmd *cobra.Command, value *string, name, shorthand, usage string, choices ...string) {
	cmd.Flags().VarP(&enum{value: value, unset: *value, choices: choices}, name, shorthand, usage)
	// The error means that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}

// enum is the value of a flag that accepts only some values. It implements pflag.Value.
type enum struct {
	value   *string
	unset   string
	choices []string
}

// String returns the value of the flag.
func (e *enum) String() string { return *e.value }

// Type returns the type of the value for the help.
func (*enum) Type() string { return "string" }

// Set sets the value of the flag. It returns an error that names the choices if the value is none of them.
func (e *enum) Set(text string) error {
	last := len(e.choices) - 1
	switch {
	case text == e.unset, slices.Contains(e.choices, text):
		*e.value = text
		return nil
	case last == 0:
		return fmt.Errorf("use %s", e.choices[0])
	default:
		return fmt.Errorf("use %s or %s", strings.Join(e.choices[:last], ", "), e.choices[last])
	}
}
