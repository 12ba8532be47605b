package convert

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"tensorstack.dev/jobs/cli/printable"
)

// nodeOf returns a value as YAML in block style. The keys of mappings have the order of the fields of the Go types.
func nodeOf(value any) (*yaml.Node, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	return readNode(decoder)
}

// readNode reads the next value of a JSON decoder.
func readNode(decoder *json.Decoder) (*yaml.Node, error) {
	token, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	node := &yaml.Node{}
	switch token := token.(type) {
	case json.Delim:
		node.Kind = yaml.MappingNode
		if token == '[' {
			node.Kind = yaml.SequenceNode
		}
		for decoder.More() {
			child, err := readNode(decoder)
			if err != nil {
				return nil, err
			}
			node.Content = append(node.Content, child)
		}
		_, err := decoder.Token() // reads the closing delimiter
		return node, err
	case json.Number:
		node.Kind, node.Value = yaml.ScalarNode, token.String()
		return node, nil
	default:
		return node, node.Encode(token)
	}
}

// encode returns a node as a YAML document.
func encode(node *yaml.Node) ([]byte, error) {
	var b bytes.Buffer
	encoder := yaml.NewEncoder(&b)
	encoder.SetIndent(2)
	if err := encoder.Encode(node); err != nil {
		return nil, err
	}
	return b.Bytes(), encoder.Close()
}

// dereferenced returns the node that an alias stands for.
func dereferenced(node *yaml.Node) *yaml.Node {
	for node != nil && node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

// pair returns the key of this name in a mapping, and the value of the key. Both are nil if there is no such key.
// pair also searches the mappings that are merged into the mapping.
func pair(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	return pairIn(mapping, name, map[*yaml.Node]bool{})
}

// pairIn is like pair, but skips the mappings that the parameter searched has. Otherwise, the search in a mapping
// that is merged into itself would not end.
func pairIn(mapping *yaml.Node, name string, searched map[*yaml.Node]bool) (key, value *yaml.Node) {
	mapping = dereferenced(mapping)
	if mapping == nil || mapping.Kind != yaml.MappingNode || searched[mapping] {
		return nil, nil
	}
	searched[mapping] = true
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], dereferenced(mapping.Content[i+1])
		}
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Tag != "!!merge" {
			continue
		}
		merged := dereferenced(mapping.Content[i+1])
		if merged.Kind == yaml.MappingNode {
			merged = &yaml.Node{Content: []*yaml.Node{merged}}
		}
		for _, other := range merged.Content {
			if key, value := pairIn(other, name, searched); key != nil {
				return key, value
			}
		}
	}
	return nil, nil
}

// steps returns the names and indices of a path such as spec.containers[0].name or annotations[example.com/name].
func steps(path string) []string {
	var list []string
	for path != "" {
		end := strings.IndexAny(path, ".[")
		switch {
		case end < 0:
			return append(list, path)
		case end > 0:
			list = append(list, path[:end])
		}
		if path[end] == '.' {
			path = path[end+1:]
			continue
		}
		inside, rest, _ := strings.Cut(path[end+1:], "]")
		list, path = append(list, inside), strings.TrimPrefix(rest, ".")
	}
	return list
}

// itemAt returns the item of a sequence at an index, or nil. The index can be any text, because a path can contain a
// key of the manifest.
func itemAt(sequence *yaml.Node, index string) *yaml.Node {
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 || i >= len(sequence.Content) {
		return nil
	}
	return sequence.Content[i]
}

// find returns the node at a path, and its key if the node is in a mapping. Both are nil if there is no such node.
func find(node *yaml.Node, path string) (key, value *yaml.Node) {
	value = dereferenced(node)
	for _, step := range steps(path) {
		switch {
		case value == nil:
			return nil, nil
		case value.Kind == yaml.SequenceNode:
			key, value = nil, dereferenced(itemAt(value, step))
		default:
			key, value = pair(value, step)
		}
	}
	return key, value
}

// graft makes the result of a conversion easy to read. Fields that come from the manifest get the comments and the
// style that they have there. Empty mappings that the manifest does not have are removed: they are structs that are
// not set.
type graft struct {
	manifest *yaml.Node
	moved    map[string]string
}

// onto prepares the node at a path of the result, and the nodes below it. The parameter source is the node of the
// manifest that the node at the path comes from, or nil.
func (g graft) onto(node, source *yaml.Node, path string) {
	switch node.Kind {
	default: // a scalar has no fields
	case yaml.MappingNode:
		var kept []*yaml.Node
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			at := strings.TrimPrefix(path+"."+key.Value, ".")
			fromKey, from := pair(source, key.Value)
			if field, ok := g.moved[at]; ok {
				fromKey, from = find(g.manifest, field)
			}
			g.onto(value, from, at)
			if value.Kind == yaml.MappingNode && len(value.Content) == 0 && from == nil {
				continue
			}
			copyComments(key, fromKey)
			kept = append(kept, key, value)
		}
		node.Content = kept
	case yaml.SequenceNode:
		for i, item := range node.Content {
			at := path + "[" + strconv.Itoa(i) + "]"
			from := itemOf(source, item, i)
			if field, ok := g.moved[at]; ok {
				_, from = find(g.manifest, field)
			}
			g.onto(item, from, at)
		}
	}
	if source == nil || source.Kind != node.Kind {
		return
	}
	copyComments(node, source)
	if node.Kind == yaml.ScalarNode {
		// A field that has not moved has the same type as in the manifest, so its value can keep the style and the tag that
		// it has there.
		_, hasMoved := g.moved[path]
		if source.Value == node.Value && (!hasMoved || source.ShortTag() == node.ShortTag()) {
			node.Style, node.Tag = source.Style, source.Tag
		}
	} else if root := dereferenced(g.manifest); root.Style&yaml.FlowStyle == 0 { // a manifest in JSON gets block style
		node.Style |= source.Style & yaml.FlowStyle
	}
}

// itemOf returns the item of a sequence of the manifest that an item of the result comes from, or nil. Conversions
// add and remove words of commands, so a scalar comes from the item with the same value, whatever its index.
func itemOf(source, item *yaml.Node, index int) *yaml.Node {
	if source == nil || source.Kind != yaml.SequenceNode {
		return nil
	}
	if item.Kind != yaml.ScalarNode {
		if index < len(source.Content) {
			return dereferenced(source.Content[index])
		}
		return nil
	}
	at := slices.IndexFunc(source.Content, func(from *yaml.Node) bool {
		return from.Kind == yaml.ScalarNode && from.Value == item.Value
	})
	if at < 0 {
		return nil
	}
	return source.Content[at]
}

// copyComments copies the comments of a node of the manifest, which can be nil.
func copyComments(node, source *yaml.Node) {
	if source != nil {
		node.HeadComment, node.LineComment, node.FootComment = source.HeadComment, source.LineComment, source.FootComment
	}
}

// comment adds a comment above the field at a path of the result. If there is no such field, or if the field is
// within a node in flow style, the comment is above the closest field around it that is outside such a node.
func comment(root *yaml.Node, path, text string) {
	node, target := root, root
	isItem := false
	for _, step := range steps(path) {
		if node.Style&yaml.FlowStyle != 0 {
			break
		}
		if node.Kind == yaml.SequenceNode {
			next := itemAt(node, step)
			if next == nil {
				break
			}
			node, target, isItem = next, next, true
			continue
		}
		key, value := pair(node, step)
		if key == nil {
			break
		}
		if !isItem || node.Content[0] != key { // a comment of the first key of an item would be behind the hyphen
			target = key
		}
		node, isItem = value, false
	}
	if target.HeadComment != "" {
		target.HeadComment += "\n"
	}
	target.HeadComment += text
}

// commentWidth is the maximum number of characters of a line of a comment.
const commentWidth = 100

// wrapped returns a text as the lines of a comment.
func wrapped(text string) string {
	return strings.Join(printable.Wrapped(text, "# ", "#   ", commentWidth), "\n")
}
