package hostile

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime"

	"tensorstack.dev/jobs/common/crd"
)

// Distort changes an object in place, the given number of times. The random numbers of r determine which fields
// change and to which values, so that a distortion can be repeated. The possible fields come from the schema of the
// CRD. The values often come from the word lists below, because these values are likely to matter. After one change
// most jobs are still valid. After five changes hardly any job is. In addition, Distort sometimes makes the training
// report its progress.
func Distort(r *rand.Rand, definition *crd.Definition, object map[string]any, times int) {
	d := distorter{Rand: r}
	for range times {
		if d.one(8) {
			d.metadata(object)
		} else {
			spec := definition.Schema().Properties["spec"]
			object["spec"] = d.change(object["spec"], &spec, "spec")
		}
	}
	if spec, ok := object["spec"].(map[string]any); ok && times > 0 && d.one(4) {
		d.reportProgress(spec)
	}
}

// reportProgress makes the training of a job report its progress, and usually sets a deadline for the progress. A
// deadline is valid only if the training reports its progress, and single random changes hardly ever set both fields.
func (d distorter) reportProgress(spec map[string]any) {
	spec["progress"] = map[string]any{"enabled": true}
	if policy, ok := spec["runPolicy"].(map[string]any); ok || spec["runPolicy"] == nil {
		policy = maps.Clone(policy)
		if policy == nil {
			policy = map[string]any{}
		}
		deadline := pick(d, []string{"progressDeadlineSeconds", "startupDeadlineSeconds"})
		policy[deadline] = pick(d, []any{int64(60), int64(3600)})
		if d.one(2) {
			policy["progressPolicy"] = pick(d, []any{"Notify", "Restart"})
		}
		spec["runPolicy"] = policy
	}
}

type distorter struct{ *rand.Rand }

// one returns true with a probability of 1/n.
func (d distorter) one(n int) bool { return d.IntN(n) == 0 }

func pick[T any](d distorter, list []T) T { return list[d.IntN(len(list))] }

// change changes a random value at or below a node, and returns the changed node.
func (d distorter) change(node any, schema *structuralschema.Structural, field string) any {
	if d.one(60) {
		return d.value(schema, field, 0)
	}
	switch node := node.(type) {
	case map[string]any:
		return d.changeObject(node, schema)
	case []any:
		return d.changeList(node, schema, field)
	default:
		return d.value(schema, field, 0)
	}
}

func (d distorter) changeObject(object map[string]any, schema *structuralschema.Structural) any {
	present := slices.Sorted(maps.Keys(object))
	switch {
	case d.one(100):
		object[pick(d, words)] = "unknown"
	case len(present) > 0 && d.one(30):
		delete(object, pick(d, present))
	case len(present) > 0 && !d.one(3):
		key := pick(d, present)
		if isLeaf(object[key]) && !d.one(3) {
			key = pick(d, present) // prefer nested fields, where most odd values are possible
		}
		if property := propertyOf(schema, key); property != nil {
			object[key] = d.change(object[key], property, key)
		}
	case len(schema.Properties) > 0:
		key := pick(d, slices.Sorted(maps.Keys(schema.Properties)))
		object[key] = d.value(propertyOf(schema, key), key, 0)
	case schema.AdditionalProperties != nil:
		object[pick(d, keys)] = d.value(schema.AdditionalProperties.Structural, "value", 0)
	}
	return object
}

func isLeaf(node any) bool {
	switch node.(type) {
	case map[string]any, []any:
		return false
	default:
		return true
	}
}

func propertyOf(schema *structuralschema.Structural, key string) *structuralschema.Structural {
	if property, ok := schema.Properties[key]; ok {
		return &property
	}
	if schema.AdditionalProperties != nil {
		return schema.AdditionalProperties.Structural
	}
	return nil
}

func (d distorter) changeList(items []any, schema *structuralschema.Structural, field string) any {
	if schema.Items == nil {
		return d.value(schema, field, 0)
	}
	if len(items) == 0 || d.one(8) {
		return append(items, d.value(schema.Items, field, 0))
	}
	i := d.IntN(len(items))
	switch {
	case d.one(30):
		return slices.Delete(items, i, i+1)
	case d.one(15):
		return slices.Insert(items, d.IntN(len(items)+1), runtime.DeepCopyJSONValue(items[i]))
	default:
		items[i] = d.change(items[i], schema.Items, field)
		return items
	}
}

// value returns a new value for a field, usually of the type in its schema.
func (d distorter) value(schema *structuralschema.Structural, field string, depth int) any {
	switch {
	case schema == nil || d.one(50):
		return pick(d, []any{nil, "text", int64(-1), 1.5, true, []any{}, map[string]any{}})
	case schema.XIntOrString:
		if schema.ValueValidation != nil && schema.ValueValidation.Pattern != "" {
			return pick(d, quantities)
		}
		return pick(d, ports)
	}
	switch schema.Type {
	case "boolean":
		return d.one(2)
	case "integer":
		if d.one(3) {
			return pick(d, integers)
		}
		return int64(d.IntN(4))
	case "number":
		return pick(d, []any{0.5, int64(1), -1e300})
	case "array":
		var list []any
		for range d.IntN(3) {
			list = append(list, d.value(schema.Items, field, depth+1))
		}
		return list
	case "object":
		return d.object(schema, depth)
	default:
		return d.text(schema, field)
	}
}

// object returns an object with some optional fields, and almost always with its required fields. Deeper objects have
// fewer optional fields.
func (d distorter) object(schema *structuralschema.Structural, depth int) map[string]any {
	object := map[string]any{}
	if schema.AdditionalProperties != nil {
		for range d.IntN(3) {
			object[pick(d, keys)] = d.value(schema.AdditionalProperties.Structural, "value", depth+1)
		}
	}
	if schema.ValueValidation != nil && !d.one(30) {
		for _, key := range schema.ValueValidation.Required {
			object[key] = d.value(propertyOf(schema, key), key, depth+1)
		}
	}
	if len(schema.Properties) == 0 {
		return object
	}
	properties := slices.Sorted(maps.Keys(schema.Properties))
	for range d.IntN(3) * d.IntN(1+3/(depth+1)) {
		key := pick(d, properties)
		object[key] = d.value(propertyOf(schema, key), key, depth+1)
	}
	return object
}

func (d distorter) text(schema *structuralschema.Structural, field string) any {
	if v := schema.ValueValidation; v != nil && len(v.Enum) > 0 && !d.one(10) {
		return pick(d, v.Enum).Object
	}
	if known := knownWords[field]; known != nil && !d.one(6) {
		return pick(d, known)
	}
	return pick(d, words)
}

// metadata changes the name, the labels, the annotations or the finalizers of an object.
func (d distorter) metadata(object map[string]any) {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		return
	}
	switch d.IntN(6) {
	case 0, 1, 2:
		metadata["name"] = pick(d, words)
	case 3:
		metadata["labels"] = map[string]any{pick(d, keys): pick(d, words)}
	case 4:
		metadata["annotations"] = map[string]any{pick(d, keys): pick(d, words)}
	default:
		metadata["finalizers"] = []any{pick(d, keys)}
	}
}

var (
	// words are texts for any field. Many of them are valid in some field, or are names that the controllers use.
	words = []string{
		"", "a", "a", "b", "worker", "master", "job", "pytorch", "wait-for-peers", "UPPER", "1", "0", "-1", "7b",
		"qwen2.5-7b", "a.b", "a/b", "a_b",
		"-a", "a-", "-", " ", "a b", "\n", "\x00", "\u202e", "é", "日本語", "\U0001f525", "true", "null", "~", "%s%n", "{{.}}",
		"`id`", "$(MASTER_ADDR)",
		"$$(RANK)", "$(", "$()", "$(WORLD_SIZE", "--rdzv_conf", "--rdzv_conf=", "--rdzv-conf=is_host=1",
		"--rdzv_endpoint=etcd:2379", "--nnodes=0",
		"../..", "/", "/data", "//", "c:\\", "http://[::1]:0", "10.0.0.1", "::1", "100m", "1Gi", "2026-01-01T00:00:00Z",
		"t9k://pvc/claim/logs",
		"t9k://pvc//", "t9k://minio/secret/bucket", strings.Repeat("a", 40), strings.Repeat("a", 52), strings.Repeat("a", 63),
		strings.Repeat("a", 64),
		strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("é", 1024), strings.Repeat("long ", 20_000),
	}

	// keys are keys for labels, annotations, environment variables and resources, including keys of this project.
	keys = []string{
		"a", "a/b", "a.b/c", "A_b", "", "/", "a b", "é", "nvidia.com/gpu", "cpu", "memory", "ephemeral-storage",
		"hugepages-2Mi", "RANK", "MASTER_ADDR",
		"batch.tensorstack.dev/job-name", "batch.tensorstack.dev/job-kind", "batch.tensorstack.dev/replica-index",
		"batch.tensorstack.dev/attempt", "batch.tensorstack.dev/progress-port", "batch.tensorstack.dev/progress-token",
		"app.kubernetes.io/name", "kubernetes.io/hostname", "container.apparmor.security.beta.kubernetes.io/pytorch",
		strings.Repeat("a", 64),
	}

	integers = []any{
		int64(-1), int64(0), int64(1), int64(5), int64(64), int64(80), int64(100), int64(101), int64(1999), int64(2000),
		int64(2001), int64(29500),
		int64(65535), int64(65536), int64(math.MaxInt32), int64(math.MaxInt32) + 1, int64(math.MinInt32),
		int64(math.MaxInt64),
		int64(math.MinInt64), 1.0, 1.5, 1e30,
	}

	ports = []any{
		int64(80), int64(0), int64(-1), int64(65536), int64(math.MaxInt32), int64(math.MaxInt32) + 1,
		int64(math.MinInt32) - 1, "http", "50%", "", "80",
		"a port with a name that is much too long", 1.5, 80.0,
	}

	quantities = []any{
		"1", "100m", "1Gi", "0", "0.5", "-1", "+1", "1e3", "1E3", "1e-3", "1e1.5", "1E+5.5", "1e99", "1e400",
		"1e99999999999999999999", "1n", "0.1n", ".5", "5.",
		".", "", "1 Gi", "1gi", "9223372036854775807", "9223372036854775808", "100000000000000000000Ei",
		strings.Repeat("9", 400), "0." + strings.Repeat("0", 400) + "1",
		int64(1), int64(0), int64(-1), int64(math.MaxInt64), 1.5,
	}

	// knownWords are plausible texts by the name of the field.
	knownWords = map[string][]string{
		"apiVersion": {"v1"},
		"args": {
			"/code/train.py", "--epochs=3", "$(RANK)", "$(MASTER_ADDR):$(MASTER_PORT)", "$(TF_CONFIG)", "",
		},
		"claimName": {"data"},
		"command":   {"python", "train.py", "sleep", "inf", "$(RANK)", ""},
		"dnsPolicy": {"ClusterFirst", "Default", "None", "ClusterFirstWithHostNet"},
		"effect":    {"NoSchedule", "NoExecute", "PreferNoSchedule"},
		"extraOptions": {
			"--tee=1", "--rdzv_conf", "--rdzv_conf=join_timeout=9", "--rdzv-conf=is_host=1", "--rdzv_endpoint=etcd:2379",
			"--nnodes=9", "",
		},
		"fieldPath":       {"metadata.name", "status.podIP", "spec.nodeName", "metadata.labels['a']", "nowhere"},
		"hostname":        {"mine", "job-worker-0", "UPPER"},
		"image":           {"training", "training@sha256:1", ""},
		"imagePullPolicy": {"Always", "IfNotPresent", "Never"},
		"key": {
			"a", "kubernetes.io/hostname", "node.kubernetes.io/not-ready", "batch.tensorstack.dev/job-name",
		},
		"level":            {"s0:c1,c2"},
		"medium":           {"", "Memory", "HugePages"},
		"mountPath":        {"/data", "/code", "/dev/shm", "/", "relative", "/a:b", "/t9k/progress"},
		"mountPropagation": {"None", "HostToContainer", "Bidirectional"},
		"name": {
			"pytorch", "python", "tensorflow", "main", "sidecar", "wait-for-peers", "data", "MASTER_ADDR", "MASTER_PORT", "RANK",
			"WORLD_SIZE", "TF_CONFIG", "tfjob-port", "A", "B", "linux", "windows", "progress", "t9k-progress", "HTTP_PROXY",
			"no_proxy", "T9K_PROGRESS_FILE",
		},
		"nodeName":                 {"node"},
		"operator":                 {"In", "NotIn", "Exists", "DoesNotExist", "Equal", "Gt"},
		"path":                     {"/", "/healthz", "relative", "a", "../.."},
		"phase":                    {"Running"},
		"policy":                   {"Never"},
		"preemptionPolicy":         {"Never", "PreemptLowerPriority"},
		"procPerNode":              {"1", "2", "gpu", "cpu", "auto", "0", "9999999999999999"},
		"procMount":                {"Default", "Unmasked"},
		"protocol":                 {"TCP", "UDP", "SCTP"},
		"queue":                    {"default"},
		"rdzvBackend":              {"c10d", "etcd-v2", "static"},
		"resource":                 {"limits.cpu", "requests.memory", "limits.nowhere"},
		"resourceName":             {"cpu", "memory"},
		"restartPolicy":            {"Always", "OnFailure", "Never", "ExitCode", "NotRequired", "RestartContainer"},
		"scheduler":                {"default-scheduler"},
		"schedulerName":            {"volcano", "default-scheduler"},
		"scheme":                   {"HTTP", "HTTPS"},
		"stopSignal":               {"SIGTERM", "SIGUSR1"},
		"subPath":                  {"a", "a/b", "../a", "/a"},
		"subPathExpr":              {"$(RANK)", "$(MASTER_ADDR)"},
		"subdomain":                {"mine"},
		"supplementalGroupsPolicy": {"Merge", "Strict"},
		"terminationMessagePath":   {"/dev/termination-log"},
		"terminationMessagePolicy": {"File", "FallbackToLogsOnError"},
		"topologyKey":              {"kubernetes.io/hostname"},
		"type": {
			"worker", "master", "ps", "node", "a-b", "a-0", "RuntimeDefault", "Localhost", "Unconfined", "DirectoryOrCreate",
		},
		"values":            {"a", "b"},
		"whenUnsatisfiable": {"DoNotSchedule", "ScheduleAnyway"},
	}
)
