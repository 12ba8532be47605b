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

// Remark explains the effect of a conversion on one field.
type Remark struct {
	Effect Effect
	// Field is the path of the field in the object of Kubeflow, such as spec.runPolicy.suspend.
	Field string
	// Value is the value of the field as text. If it is empty, the remark does not show a value.
	Value string
	// Text explains the effect, in sentences.
	Text string

	// near is the path of a field in the result. The remark becomes a comment above this field. If the result has no
	// such field, the comment is above the closest field around the path.
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

// maxValue is the maximum number of characters of a value in a remark.
const maxValue = 120

// valueOf returns a value as text: a string as it is, and anything else as JSON. It cuts off texts after maxValue
// characters.
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

// printableError returns an error whose message is one line of printable characters. It escapes line breaks and
// control characters, which can come from a manifest.
func printableError(err error) error { return errors.New(printable.Escaped(err.Error())) }

// conversion collects the effects of the conversion on the fields of one object.
type conversion struct {
	remarks []Remark
	// moved maps paths of fields in the result to the paths in the manifest that the fields come from. An entry also
	// applies to the fields below its path.
	moved map[string]string
	// inSpec are the fields of the run policy that come from the spec itself, and not from spec.runPolicy.
	inSpec sets.Set[string]
}

func (c *conversion) notMapped(field string, value any, near, text string) {
	c.remarks = append(c.remarks, Remark{NotMapped, field, valueOf(value), text, near})
}

// notMappedIfSet records that the result has no counterpart of a field, if the manifest sets the field. It shows the
// value that a pointer points to. An empty list counts as unset.
func (c *conversion) notMappedIfSet(field string, value any, near, text string) {
	if v := reflect.ValueOf(value); !v.IsZero() && (v.Kind() != reflect.Slice || v.Len() > 0) {
		c.notMapped(field, value, near, text)
	}
}

func (c *conversion) changed(field string, value any, near, text string) {
	c.remarks = append(c.remarks, Remark{Changed, field, valueOf(value), text, near})
}

// byDefault records that the result sets a field to Kubeflow's default, because the manifest does not set it.
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

// resultOf maps the path of a field in the manifest to its path in the result. The two paths differ if the field, or
// a field around it, has moved.
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

// fieldOf maps the path of a field in the result to the path in the manifest that the field comes from.
func (c *conversion) fieldOf(result string) string {
	found, field := "", result
	for at, from := range c.moved {
		if rest, isWithin := within(result, at); isWithin && len(at) > len(found) {
			found, field = at, from+rest
		}
	}
	return field
}

// within reports whether a path is the path of a field or below it. If so, rest is the part of the path after the
// field.
func within(path, field string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, field)
	return rest, ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
