package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"tensorstack.dev/jobs/cli/printable"
)

// Effect is the effect of a conversion on a field of Kubeflow.
type Effect string

// The effects that a remark explains.
const (
	// NotMapped means that the field has no counterpart, so the result lacks it.
	NotMapped Effect = "Not mapped"
	// Changed means that the result has a counterpart whose meaning is different.
	Changed Effect = "Changed"
	// Rejected means that the API server rejects the counterpart.
	Rejected Effect = "Rejected"
	// Default means that the manifest does not set the field, and that the result sets its counterpart, because the
	// defaults differ.
	Default Effect = "Kubeflow's default"
)

// Remark explains what happens to a field whose meaning the result does not keep by itself.
type Remark struct {
	Effect Effect
	// Field is the path of the field in the object of Kubeflow, such as spec.runPolicy.suspend.
	Field string
	// Value is the value of the field as text. Empty if it adds nothing.
	Value string
	// Text explains the effect, in sentences.
	Text string

	// near is the path in the result where the remark stands as a comment. If the result has no such field, the comment
	// stands at the closest field around it.
	near string
}

// String returns the remark as one line of printable characters.
func (r Remark) String() string {
	text := string(r.Effect) + ": " + r.Field
	if r.Value != "" {
		text += ": " + r.Value
	}
	return printable.Escaped(text + ". " + r.Text)
}

// maxValue is the number of characters of a value in a remark.
const maxValue = 120

// valueOf returns a value as text: a string as it is, anything else as JSON.
func valueOf(value any) string {
	var text string
	if v := reflect.ValueOf(value); v.Kind() == reflect.String {
		text = v.String()
	} else {
		content, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		text = string(content)
	}
	if runes := []rune(text); len(runes) > maxValue {
		text = string(runes[:maxValue]) + "..."
	}
	return text
}

// printableError returns an error without the line breaks and control characters of a manifest.
func printableError(err error) error { return errors.New(printable.Escaped(err.Error())) }

// conversion collects what happens to the fields of one object.
type conversion struct {
	remarks []Remark
	// moved maps paths in the result to the paths in the manifest that they come from. It also applies to the fields
	// below them.
	moved map[string]string
	// inSpec are the fields of the run policy that are in the spec itself.
	inSpec sets.Set[string]
}

func (c *conversion) notMapped(field string, value any, near, text string) {
	c.remarks = append(c.remarks, Remark{NotMapped, field, valueOf(value), text, near})
}

func (c *conversion) changed(field string, value any, near, text string) {
	c.remarks = append(c.remarks, Remark{Changed, field, valueOf(value), text, near})
}

// byDefault records that the result has a default of Kubeflow at a path.
func (c *conversion) byDefault(field string, value any, near, text string) {
	c.remarks = append(c.remarks, Remark{Default, field, valueOf(value), text, near})
}

// move records that a field of the manifest has become a field of the result.
func (c *conversion) move(field, result string) {
	if c.moved == nil {
		c.moved = map[string]string{}
	}
	c.moved[result] = field
}

// resultOf returns the path in the result of a field of the manifest that belongs to a field that has moved.
func (c *conversion) resultOf(field string) string {
	found, result := "", field
	for at, from := range c.moved {
		rest, isWithin := within(field, from)
		if isWithin && (len(from) > len(found) || from == found && at+rest < result) {
			found, result = from, at+rest
		}
	}
	return result
}

// fieldOf returns the path in the manifest that a path in the result comes from.
func (c *conversion) fieldOf(result string) string {
	found, field := "", result
	for at, from := range c.moved {
		if rest, isWithin := within(result, at); isWithin && len(at) > len(found) {
			found, field = at, from+rest
		}
	}
	return field
}

// within returns the rest of a path after the path of a field, and whether it is the path of this field or within it.
func within(path, field string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, field)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
