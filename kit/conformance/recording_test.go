package conformance

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"tensorstack.dev/jobs/kit/model"
)

var updateRecording = flag.Bool("conformance.update-recording", false,
	"write what the controller does to testdata/recording, instead of comparing it with the files there")

// TestControllerDoesWhatIsRecorded compares the actions of the controller with the files in testdata/recording. Each
// scenario runs without a fault. The actions are the writes with their content, the live reads, and the events. Only a
// change of the behavior of the controller may change these files.
func TestControllerDoesWhatIsRecorded(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]func(model.Kind) model.Kind{
		"plain":           func(k model.Kind) model.Kind { return k },
		"mesh":            model.Kind.InMesh,
		"holding-leaders": model.Kind.HoldingLeaders,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, err := model.KindOf(plainController(), newPlainJob)
			if err != nil {
				t.Fatal(err)
			}
			testRecording(t, variant(k), filepath.Join("testdata", "recording", name+".txt"))
		})
	}
}

// testRecording compares the actions of the controller in all scenarios with the recording in a file. With
// -conformance.update-recording, it writes the file instead.
func testRecording(t *testing.T, k model.Kind, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !*updateRecording {
		t.Fatal(err)
	}
	recorded := parseRecording(string(content))
	for name := range recorded.scenarios {
		isIt := func(s scenario) bool { return s.name == name && s.isFor(k) }
		if !slices.ContainsFunc(scenarios, isIt) && !*updateRecording {
			t.Errorf("%s has the scenario %q, which does not exist", file, name)
		}
	}
	done := recording{scenarios: map[string][]string{}, objects: map[string]string{}}
	for _, s := range scenarios {
		if !s.isFor(k) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			w := newWorld(t, k)
			o := &observer{world: w, objects: done.objects, names: map[string]string{}, created: map[string]int{}}
			w.witness = o
			s.play(w, fault{}, nil)
			done.scenarios[s.name] = o.actions
			if diff := gocmp.Diff(recorded.of(s.name), done.of(s.name)); diff != "" && !*updateRecording {
				t.Errorf("the controller does not do what is recorded (-recorded +done):\n%s", diff)
			}
		})
	}
	if !*updateRecording {
		return
	}
	for _, s := range scenarios {
		if s.isFor(k) && done.scenarios[s.name] == nil {
			t.Fatalf("%s stays as it is: the scenario %q has not run", file, s.name)
		}
	}
	if err := os.WriteFile(file, []byte(done.format()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// recording has the actions of the controller in all scenarios.
type recording struct {
	// scenarios are the actions of the controller in each scenario: writes, live reads and events. Each action begins
	// with the time since the scenario began. A creation ends with the digest of the object, and an update with a JSON
	// merge patch.
	scenarios map[string][]string
	// objects are the objects that the controller creates, by their digests. In a file, they have numbers instead of
	// digests.
	objects map[string]string
}

// format returns the text of the recording: the actions of each scenario below its name, and then the objects. The
// actions refer to the objects by number and not by digest, so that a change of an object changes only one line.
func (r recording) format() string {
	var scenarios, objects strings.Builder
	numbers := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(r.scenarios)) {
		fmt.Fprintf(&scenarios, "# %s\n", name)
		for _, action := range r.scenarios[name] {
			digest := lastWord(action)
			if r.objects[digest] != "" && numbers[digest] == "" {
				numbers[digest] = fmt.Sprintf("object-%d", len(numbers)+1)
				fmt.Fprintf(&objects, "%s %s\n", numbers[digest], r.objects[digest])
			}
			fmt.Fprintln(&scenarios, strings.TrimSuffix(action, digest)+cmp.Or(numbers[digest], digest))
		}
		fmt.Fprintln(&scenarios)
	}
	return scenarios.String() + "# objects\n" + objects.String()
}

func lastWord(action string) string { return action[strings.LastIndexByte(action, ' ')+1:] }

// parseRecording parses the text of a recording, which the files in testdata/recording contain.
func parseRecording(text string) recording {
	r := recording{scenarios: map[string][]string{}, objects: map[string]string{}}
	for section := range strings.SplitSeq(strings.TrimPrefix(text, "# "), "\n\n# ") {
		name, lines, _ := strings.Cut(strings.TrimRight(section, "\n"), "\n")
		if name != "objects" {
			r.scenarios[name] = strings.Split(lines, "\n")
			continue
		}
		for line := range strings.Lines(lines) {
			number, object, _ := strings.Cut(strings.TrimSpace(line), " ")
			r.objects[number] = object
		}
	}
	return r
}

// of returns the actions of a scenario, with the objects themselves in place of their digests or numbers.
func (r recording) of(scenario string) []string {
	actions := slices.Clone(r.scenarios[scenario])
	for i, action := range actions {
		if key := lastWord(action); r.objects[key] != "" {
			actions[i] = strings.TrimSuffix(action, key) + r.objects[key]
		}
	}
	return actions
}

// observer records the actions of the controller in one scenario.
type observer struct {
	mu      sync.Mutex
	world   *world
	actions []string
	// objects are the objects that the controller creates, by their digests.
	objects map[string]string
	// names maps each UID to the name that replaces it in the recording. The UIDs of objects that are created in
	// parallel differ from run to run.
	names map[string]string
	// created is the number of objects that were created so far, by key.
	created map[string]int
}

var _ witness = &observer{}

// changed implements witness.
func (o *observer) changed(change model.Change, byController bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if change.Before == nil {
		o.created[change.Key]++
		o.names[string(change.After.GetUID())] = fmt.Sprintf("%s#%d", change.Key, o.created[change.Key])
	}
	switch {
	case !byController:
	case change.Before == nil:
		object := o.encode(change.After)
		hash := fnv.New64a()
		_, _ = hash.Write(object) // never fails
		digest := fmt.Sprintf("%016x", hash.Sum64())
		o.objects[digest] = string(object)
		o.add("create " + change.Key + " " + digest)
	case change.After == nil:
		o.add("delete " + change.Key)
	default:
		patch, err := jsonpatch.CreateMergePatch(byType(o.encode(change.Before)), byType(o.encode(change.After)))
		if err != nil {
			panic(err) // both are JSON objects
		}
		o.add("change " + change.Key + " " + string(patch))
	}
}

// readLive implements witness.
func (o *observer) readLive(call model.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("live " + call.String())
}

// emitted implements witness.
func (o *observer) emitted(eventtype, reason, message string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add("event " + eventtype + " " + reason + ": " + strings.ReplaceAll(message, "\n", `\n`))
}

// add appends an action. The controller writes several pods at the same time, so add sorts such actions by the names
// of the pods.
func (o *observer) add(action string) {
	action = o.world.Clock.Now().Sub(model.Birth).String() + " " + action
	at := len(o.actions)
	for at > 0 && areOneBatch(o.actions[at-1], action) && podOf(o.actions[at-1]) > podOf(action) {
		at--
	}
	o.actions = slices.Insert(o.actions, at, action)
}

// areOneBatch reports whether two actions write pods at the same time, and either both create a pod or neither does.
func areOneBatch(a, b string) bool {
	time, rest, _ := strings.Cut(a, " ")
	return podOf(a) != "" && podOf(b) != "" && strings.HasPrefix(b, time+" ") &&
		strings.HasPrefix(rest, "create ") == strings.HasPrefix(b, time+" create ")
}

// podOf returns the name of the pod that an action writes. It is empty if the action does not write a pod.
func podOf(action string) string {
	words := strings.Fields(action)
	if words[1] == "event" || words[1] == "live" {
		return ""
	}
	name, isPod := strings.CutPrefix(words[2], "Pod/")
	if !isPod {
		return ""
	}
	return name
}

// uid matches a UID of the model. token matches the pod annotation with the random token that protects the progress.
var (
	uid   = regexp.MustCompile(`uid-\d+`)
	token = regexp.MustCompile(`("batch.tensorstack.dev/progress-token":)"[^"]+"`)
)

// encode returns the JSON of an object without random values and without the fields that the API server sets. The
// names of other objects replace their UIDs.
func (o *observer) encode(object client.Object) []byte {
	object = object.DeepCopyObject().(client.Object)
	object.SetResourceVersion("")
	object.SetUID("")
	object.SetCreationTimestamp(metav1.Time{})
	content, err := json.Marshal(object)
	if err != nil {
		panic(err) // an object that the API server stores can be encoded
	}
	content = token.ReplaceAll(content, []byte(`$1"random"`))
	return uid.ReplaceAllFunc(content, func(uid []byte) []byte { return []byte(o.names[string(uid)]) })
}

// byType returns a JSON object in which the conditions and the tasks of the status are maps by their type, so that a
// merge patch has only the conditions and the tasks that change.
func byType(object []byte) []byte {
	var decoded map[string]any
	if err := json.Unmarshal(object, &decoded); err != nil {
		panic(err) // it is a JSON object
	}
	status, _ := decoded["status"].(map[string]any)
	for _, field := range []string{"conditions", "tasks"} {
		list, _ := status[field].([]any)
		elements := map[string]any{}
		for _, element := range list {
			fields, _ := element.(map[string]any)
			elements[fmt.Sprint(fields["type"])] = fields
		}
		if len(list) > 0 {
			status[field] = elements
		}
	}
	encoded, err := json.Marshal(decoded)
	if err != nil {
		panic(err) // it comes from a JSON object
	}
	return encoded
}
