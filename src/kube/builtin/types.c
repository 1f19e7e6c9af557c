/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One table for schemas, protobuf numbers, merge keys and list types of the built-in kinds. A line
 * is "Type{ number name type flags; ... }". Types: s string, i int, b bool, y bytes, t time,
 * mt time with microseconds, ios int-or-string, q quantity, any free JSON, items list of strings in
 * a message, Name another type; [] repeats, {} maps strings. A number "2.3" is field 3 of a message
 * in field 2 that JSON does not show. Flags: * pointer (zero values kept), ! required, e always
 * written, k=a+b list-map keys, set, atomic, mk=x strategic merge key, merge (lists of scalars
 * merge), d=x default, w inside another message in field 1 of it on the wire. "Type@" is replaced
 * as a whole by server-side apply.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/search.h"
#include "kube/builtin/builtin_int.h"

static const char table[] =
    "ObjectMeta{1 name s;2 generateName s;3 namespace s;4 selfLink s;5 uid s;6 resourceVersion s;"
    "7 generation i;8 creationTimestamp t;9 deletionTimestamp t;10 deletionGracePeriodSeconds i *;"
    "11 labels {}s;12 annotations {}s;13 ownerReferences []OwnerReference k=uid mk=uid;"
    "14 finalizers []s set merge;17 managedFields []ManagedFieldsEntry}"
    "OwnerReference@{1 kind s !;3 name s !;4 uid s !;5 apiVersion s !;6 controller b *;"
    "7 blockOwnerDeletion b *}"
    "ManagedFieldsEntry{1 manager s;2 operation s;3 apiVersion s;4 time t;6 fieldsType s;"
    "7 fieldsV1 any;8 subresource s}"
    "ListMeta{1 selfLink s;2 resourceVersion s;3 continue s;4 remainingItemCount i *}"
    "LabelSelector@{1 matchLabels {}s;2 matchExpressions []LabelSelectorRequirement}"
    "LabelSelectorRequirement{1 key s !;2 operator s !;3 values []s}"
    "Condition{1 type s !;2 status s !;3 observedGeneration i;4 lastTransitionTime t !;"
    "5 reason s !;6 message s !}"
    "ObjectReference@{1 kind s;2 namespace s;3 name s;4 uid s;5 apiVersion s;6 resourceVersion s;"
    "7 fieldPath s}"
    "LocalObjectReference@{1 name s}"
    "DeleteOptions{1 gracePeriodSeconds i *;2 preconditions Preconditions;3 orphanDependents b *;"
    "4 propagationPolicy s *;5 dryRun []s;0 apiVersion s;0 kind s}"
    "Preconditions{1 uid s *;2 resourceVersion s *}"

    "Namespace{1 metadata ObjectMeta;2 spec NamespaceSpec e;3 status NamespaceStatus e}"
    "NamespaceSpec{1 finalizers []s}"
    "NamespaceStatus{1 phase s;2 conditions []NamespaceCondition k=type mk=type}"
    "NamespaceCondition{1 type s !;2 status s !;4 lastTransitionTime t;5 reason s;6 message s}"
    "ConfigMap{1 metadata ObjectMeta;2 data {}s;3 binaryData {}y;4 immutable b *}"
    "Secret{1 metadata ObjectMeta;2 data {}y;3 type s;4 stringData {}s;5 immutable b *}"
    "ServiceAccount{1 metadata ObjectMeta;2 secrets []ObjectReference k=name mk=name;"
    "3 imagePullSecrets []LocalObjectReference;4 automountServiceAccountToken b *}"
    "Service{1 metadata ObjectMeta;2 spec ServiceSpec e;3 status ServiceStatus e}"
    "ServiceSpec{1 ports []ServicePort k=port+protocol mk=port;2 selector {}s atomic;3 clusterIP s;"
    "4 type s;5 externalIPs []s;7 sessionAffinity s;8 loadBalancerIP s;"
    "9 loadBalancerSourceRanges []s;10 externalName s;11 externalTrafficPolicy s;"
    "12 healthCheckNodePort i;13 publishNotReadyAddresses b;"
    "14 sessionAffinityConfig SessionAffinityConfig;17 ipFamilyPolicy s *;18 clusterIPs []s;"
    "19 ipFamilies []s;20 allocateLoadBalancerNodePorts b *;21 loadBalancerClass s *;"
    "22 internalTrafficPolicy s *;23 trafficDistribution s *}"
    "SessionAffinityConfig{1 clientIP ClientIPConfig}"
    "ClientIPConfig{1 timeoutSeconds i *}"
    "ServicePort{1 name s;2 protocol s d=TCP;3 port i !;4 targetPort ios;5 nodePort i;"
    "6 appProtocol s *}"
    "ServiceStatus{1 loadBalancer LoadBalancerStatus e;2 conditions []Condition k=type mk=type}"
    "LoadBalancerStatus{1 ingress []LoadBalancerIngress}"
    "LoadBalancerIngress{1 ip s;2 hostname s;3 ipMode s *;4 ports []PortStatus}"
    "PortStatus{1 port i !;2 protocol s !;3 error s *}"
    "Event{1 metadata ObjectMeta;2 involvedObject ObjectReference e;3 reason s;4 message s;"
    "5 source EventSource e;6 firstTimestamp t;7 lastTimestamp t;8 count i;9 type s;"
    "10 eventTime mt;11 series EventSeries;12 action s;13 related ObjectReference;"
    "14 reportingComponent s !;15 reportingInstance s !}"
    "EventSource{1 component s;2 host s}"
    "EventSeries{1 count i;2 lastObservedTime mt}"
    "EventV1{1 metadata ObjectMeta;2 eventTime mt;3 series EventSeries;4 reportingController s;"
    "5 reportingInstance s;6 action s;7 reason s;8 regarding ObjectReference e;"
    "9 related ObjectReference;10 note s;11 type s;12 deprecatedSource EventSource e;"
    "13 deprecatedFirstTimestamp t;14 deprecatedLastTimestamp t;15 deprecatedCount i}"
    "ResourceQuota{1 metadata ObjectMeta;2 spec ResourceQuotaSpec e;3 status ResourceQuotaStatus e}"
    "ResourceQuotaSpec{1 hard {}q;2 scopes []s atomic;3 scopeSelector ScopeSelector}"
    "ResourceQuotaStatus{1 hard {}q;2 used {}q}"
    "ScopeSelector@{1 matchExpressions []ScopedResourceSelectorRequirement atomic}"
    "ScopedResourceSelectorRequirement{1 scopeName s !;2 operator s !;3 values []s atomic}"
    "Endpoints{1 metadata ObjectMeta;2 subsets []EndpointSubset}"
    "EndpointSubset{1 addresses []EndpointAddress;2 notReadyAddresses []EndpointAddress;"
    "3 ports []EndpointPortV1}"
    "EndpointAddress@{1 ip s !;2 targetRef ObjectReference;3 hostname s;4 nodeName s *}"
    "EndpointPortV1@{1 name s;2 port i !;3 protocol s d=TCP;4 appProtocol s *}"
    "Pod{1 metadata ObjectMeta;2 spec PodSpec e;3 status PodStatus e}"
    "PodTemplateSpec{1 metadata ObjectMeta;2 spec PodSpec e}"
    "Node{1 metadata ObjectMeta;2 spec NodeSpec e;3 status NodeStatus e}"
    "Deployment{1 metadata ObjectMeta;2 spec DeploymentSpec e;3 status DeploymentStatus e}"
    "ReplicaSet{1 metadata ObjectMeta;2 spec ReplicaSetSpec e;3 status ReplicaSetStatus e}"
    "DaemonSet{1 metadata ObjectMeta;2 spec DaemonSetSpec e;3 status DaemonSetStatus e}"

    "HorizontalPodAutoscaler{1 metadata ObjectMeta;2 spec HorizontalPodAutoscalerSpec e;"
    "3 status HorizontalPodAutoscalerStatus e}"
    "HorizontalPodAutoscalerSpec{1 scaleTargetRef CrossVersionObjectReference ! e;2 minReplicas i "
    "*;"
    "3 maxReplicas i !;4 metrics []MetricSpec;5 behavior HorizontalPodAutoscalerBehavior}"
    "CrossVersionObjectReference{1 kind s !;2 name s !;3 apiVersion s}"
    "MetricSpec{1 type s !;2 object ObjectMetricSource;3 pods PodsMetricSource;"
    "4 resource ResourceMetricSource;5 external ExternalMetricSource;"
    "7 containerResource ContainerResourceMetricSource}"
    "ObjectMetricSource{1 describedObject CrossVersionObjectReference ! e;2 target MetricTarget ! "
    "e;"
    "3 metric MetricIdentifier ! e}"
    "PodsMetricSource{1 metric MetricIdentifier ! e;2 target MetricTarget ! e}"
    "ResourceMetricSource{1 name s !;2 target MetricTarget ! e}"
    "ContainerResourceMetricSource{1 name s !;2 target MetricTarget ! e;3 container s !}"
    "ExternalMetricSource{1 metric MetricIdentifier ! e;2 target MetricTarget ! e}"
    "MetricIdentifier{1 name s !;2 selector LabelSelector}"
    "MetricTarget{1 type s !;2 value q;3 averageValue q;4 averageUtilization i *}"
    "HorizontalPodAutoscalerBehavior{1 scaleUp HPAScalingRules;2 scaleDown HPAScalingRules}"
    "HPAScalingRules{1 selectPolicy s *;2 policies []HPAScalingPolicy;"
    "3 stabilizationWindowSeconds i *;4 tolerance q}"
    "HPAScalingPolicy{1 type s !;2 value i !;3 periodSeconds i !}"
    "HorizontalPodAutoscalerStatus{1 observedGeneration i *;2 lastScaleTime t;3 currentReplicas i;"
    "4 desiredReplicas i !;5 currentMetrics []MetricStatus !;"
    "6 conditions []HorizontalPodAutoscalerCondition k=type mk=type}"
    "MetricStatus{1 type s !;2 object ObjectMetricStatus;3 pods PodsMetricStatus;"
    "4 resource ResourceMetricStatus;5 external ExternalMetricStatus;"
    "7 containerResource ContainerResourceMetricStatus}"
    "ObjectMetricStatus{1 metric MetricIdentifier ! e;2 current MetricValueStatus ! e;"
    "3 describedObject CrossVersionObjectReference ! e}"
    "PodsMetricStatus{1 metric MetricIdentifier ! e;2 current MetricValueStatus ! e}"
    "ResourceMetricStatus{1 name s !;2 current MetricValueStatus ! e}"
    "ContainerResourceMetricStatus{1 name s !;2 current MetricValueStatus ! e;3 container s !}"
    "ExternalMetricStatus{1 metric MetricIdentifier ! e;2 current MetricValueStatus ! e}"
    "MetricValueStatus{1 value q;2 averageValue q;3 averageUtilization i *}"
    "HorizontalPodAutoscalerCondition{1 type s !;2 status s !;3 lastTransitionTime t;4 reason s;"
    "5 message s}"
    "PodDisruptionBudget{1 metadata ObjectMeta;2 spec PodDisruptionBudgetSpec e;"
    "3 status PodDisruptionBudgetStatus e}"
    "PodDisruptionBudgetSpec{1 minAvailable ios;2 selector LabelSelector;3 maxUnavailable ios;"
    "4 unhealthyPodEvictionPolicy s *}"
    "PodDisruptionBudgetStatus{1 observedGeneration i;3 disruptionsAllowed i !;"
    "4 currentHealthy i !;5 desiredHealthy i !;6 expectedPods i !;"
    "7 conditions []Condition k=type mk=type}"
    "Lease{1 metadata ObjectMeta;2 spec LeaseSpec e}"
    "LeaseSpec{1 holderIdentity s *;2 leaseDurationSeconds i *;3 acquireTime mt;4 renewTime mt;"
    "5 leaseTransitions i *;6 strategy s *;7 preferredHolder s *}"
    "EndpointSlice{1 metadata ObjectMeta;2 endpoints []Endpoint !;3 ports []EndpointPort !;"
    "4 addressType s !}"
    "Endpoint{1 addresses []s ! set;2 conditions EndpointConditions e;3 hostname s *;"
    "4 targetRef ObjectReference;5 deprecatedTopology {}s;6 nodeName s *;7 zone s *;"
    "8 hints EndpointHints}"
    "EndpointConditions{1 ready b *;2 serving b *;3 terminating b *}"
    "EndpointHints{1 forZones []ForZone;2 forNodes []ForNode}"
    "ForZone{1 name s !}"
    "ForNode{1 name s !}"
    "EndpointPort@{1 name s *;2 protocol s *;3 port i *;4 appProtocol s *}"

    "Ingress{1 metadata ObjectMeta;2 spec IngressSpec e;3 status IngressStatus e}"
    "IngressSpec{1 defaultBackend IngressBackend;2 tls []IngressTLS;3 rules []IngressRule;"
    "4 ingressClassName s *}"
    "IngressTLS{1 hosts []s;2 secretName s}"
    "IngressRule{1 host s;2 http HTTPIngressRuleValue w}"
    "HTTPIngressRuleValue{1 paths []HTTPIngressPath !}"
    "HTTPIngressPath{1 path s;2 backend IngressBackend ! e;3 pathType s !}"
    "IngressBackend{3 resource TypedLocalObjectReference;4 service IngressServiceBackend}"
    "IngressServiceBackend{1 name s !;2 port ServiceBackendPort e}"
    "ServiceBackendPort@{1 name s;2 number i}"
    "TypedLocalObjectReference@{1 apiGroup s *;2 kind s !;3 name s !}"
    "IngressStatus{1 loadBalancer IngressLoadBalancerStatus e}"
    "IngressLoadBalancerStatus{1 ingress []IngressLoadBalancerIngress}"
    "IngressLoadBalancerIngress{1 ip s;2 hostname s;4 ports []IngressPortStatus}"
    "IngressPortStatus{1 port i !;2 protocol s !;3 error s *}"
    "IngressClass{1 metadata ObjectMeta;2 spec IngressClassSpec e}"
    "IngressClassSpec{1 controller s;2 parameters IngressClassParametersReference}"
    "IngressClassParametersReference{1 apiGroup s *;2 kind s !;3 name s !;4 scope s *;"
    "5 namespace s *}"

    "Role{1 metadata ObjectMeta;2 rules []PolicyRule !}"
    "ClusterRole{1 metadata ObjectMeta;2 rules []PolicyRule !;3 aggregationRule AggregationRule}"
    "PolicyRule{1 verbs []s !;2 apiGroups []s;3 resources []s;4 resourceNames []s;"
    "5 nonResourceURLs []s}"
    "AggregationRule{1 clusterRoleSelectors []LabelSelector}"
    "RoleBinding{1 metadata ObjectMeta;2 subjects []Subject;3 roleRef RoleRef !}"
    "ClusterRoleBinding{1 metadata ObjectMeta;2 subjects []Subject;3 roleRef RoleRef !}"
    "Subject@{1 kind s !;2 apiGroup s;3 name s !;4 namespace s}"
    "RoleRef@{1 apiGroup s !;2 kind s !;3 name s !}"

    "TokenRequest{1 metadata ObjectMeta;2 spec TokenRequestSpec !;3 status TokenRequestStatus}"
    "TokenRequestSpec{1 audiences []s !;3 boundObjectRef BoundObjectReference;"
    "4 expirationSeconds i *}"
    "BoundObjectReference{1 kind s;2 apiVersion s;3 name s;4 uid s}"
    "TokenRequestStatus{1 token s !;2 expirationTimestamp t !}"
    "TokenReview{1 metadata ObjectMeta;2 spec TokenReviewSpec !;3 status TokenReviewStatus}"
    "TokenReviewSpec{1 token s;2 audiences []s}"
    "TokenReviewStatus{1 authenticated b;2 user UserInfo;3 error s;4 audiences []s}"
    "UserInfo{1 username s;2 uid s;3 groups []s;4 extra {}items}"
    "SelfSubjectReview{1 metadata ObjectMeta;2 status SelfSubjectReviewStatus}"
    "SelfSubjectReviewStatus{1 userInfo UserInfo}"
    "SelfSubjectAccessReview{1 metadata ObjectMeta;2 spec SelfSubjectAccessReviewSpec !;"
    "3 status SubjectAccessReviewStatus}"
    "SelfSubjectAccessReviewSpec{1 resourceAttributes ResourceAttributes;"
    "2 nonResourceAttributes NonResourceAttributes}"
    "SubjectAccessReview{1 metadata ObjectMeta;2 spec SubjectAccessReviewSpec !;"
    "3 status SubjectAccessReviewStatus}"
    "LocalSubjectAccessReview{1 metadata ObjectMeta;2 spec SubjectAccessReviewSpec !;"
    "3 status SubjectAccessReviewStatus}"
    "SubjectAccessReviewSpec{1 resourceAttributes ResourceAttributes;"
    "2 nonResourceAttributes NonResourceAttributes;3 user s;4 groups []s;5 extra {}items;6 uid s}"
    "ResourceAttributes{1 namespace s;2 verb s;3 group s;4 version s;5 resource s;6 subresource s;"
    "7 name s;8 fieldSelector FieldSelectorAttributes;9 labelSelector LabelSelectorAttributes}"
    "FieldSelectorAttributes{1 rawSelector s;2 requirements []FieldSelectorRequirement}"
    "FieldSelectorRequirement{1 key s !;2 operator s !;3 values []s}"
    "LabelSelectorAttributes{1 rawSelector s;2 requirements []LabelSelectorRequirement}"
    "NonResourceAttributes{1 path s;2 verb s}"
    "SubjectAccessReviewStatus{1 allowed b !;2 reason s;3 evaluationError s;4 denied b}"
    "SelfSubjectRulesReview{1 metadata ObjectMeta;2 spec SelfSubjectRulesReviewSpec !;"
    "3 status SubjectRulesReviewStatus}"
    "SelfSubjectRulesReviewSpec{1 namespace s}"
    "SubjectRulesReviewStatus{1 resourceRules []ResourceRule !;2 nonResourceRules []NonResourceRule"
    " !;3 incomplete b !;4 evaluationError s}"
    "ResourceRule{1 verbs []s !;2 apiGroups []s;3 resources []s;4 resourceNames []s}"
    "NonResourceRule{1 verbs []s !;2 nonResourceURLs []s}"

    "Scale{1 metadata ObjectMeta;2 spec ScaleSpec e;3 status ScaleStatus e}"
    "ScaleSpec{1 replicas i}"
    "ScaleStatus{1 replicas i !;2 selector s}"

    "CustomResourceDefinition{1 metadata ObjectMeta;2 spec CustomResourceDefinitionSpec ! e;"
    "3 status CustomResourceDefinitionStatus}"
    "CustomResourceDefinitionSpec{1 group s !;3 names CustomResourceDefinitionNames ! e;4 scope s "
    "!;"
    "7 versions []CustomResourceDefinitionVersion !;9 conversion CustomResourceConversion;"
    "10 preserveUnknownFields b}"
    "CustomResourceDefinitionNames{1 plural s !;2 singular s;3 shortNames []s;4 kind s !;"
    "5 listKind s;6 categories []s}"
    "CustomResourceDefinitionVersion{1 name s !;2 served b !;3 storage b !;7 deprecated b;"
    "8 deprecationWarning s *;4 schema CustomResourceValidation;"
    "5 subresources CustomResourceSubresources;"
    "6 additionalPrinterColumns []CustomResourceColumnDefinition;"
    "9 selectableFields []SelectableField}"
    "CustomResourceValidation{1 openAPIV3Schema any}"
    "CustomResourceSubresources{1 status any;2 scale CustomResourceSubresourceScale}"
    "CustomResourceSubresourceScale{1 specReplicasPath s !;2 statusReplicasPath s !;"
    "3 labelSelectorPath s *}"
    "CustomResourceColumnDefinition{1 name s !;2 type s !;3 format s;4 description s;5 priority i;"
    "6 jsonPath s !}"
    "SelectableField{1 jsonPath s !}"
    "CustomResourceConversion{1 strategy s !;2 webhook any}"
    "CustomResourceDefinitionStatus{1 conditions []CustomResourceDefinitionCondition k=type;"
    "2 acceptedNames CustomResourceDefinitionNames;3 storedVersions []s}"
    "CustomResourceDefinitionCondition{1 type s !;2 status s !;3 lastTransitionTime t;4 reason s;"
    "5 message s}"

    "ValidatingAdmissionPolicy{1 metadata ObjectMeta;2 spec ValidatingAdmissionPolicySpec;"
    "3 status ValidatingAdmissionPolicyStatus}"
    "ValidatingAdmissionPolicySpec{1 paramKind ParamKind;2 matchConstraints MatchResources;"
    "3 validations []Validation;4 failurePolicy s *;5 auditAnnotations []AuditAnnotation;"
    "6 matchConditions []MatchCondition k=name mk=name;7 variables []Variable k=name mk=name}"
    "ParamKind@{1 apiVersion s;2 kind s}"
    "MatchResources@{1 namespaceSelector LabelSelector;2 objectSelector LabelSelector;"
    "3 resourceRules []NamedRuleWithOperations;4 excludeResourceRules []NamedRuleWithOperations;"
    "7 matchPolicy s *}"
    "NamedRuleWithOperations@{1 resourceNames []s;2.1 operations []s;2.2.1 apiGroups []s;"
    "2.2.2 apiVersions []s;2.2.3 resources []s;2.2.4 scope s *}"
    "Validation{1 expression s !;2 message s;3 reason s *;4 messageExpression s}"
    "AuditAnnotation{1 key s !;2 valueExpression s !}"
    "MatchCondition{1 name s !;2 expression s !}"
    "Variable@{1 name s !;2 expression s !}"
    "ValidatingAdmissionPolicyStatus{1 observedGeneration i;2 typeChecking any;"
    "3 conditions []Condition k=type}"
    "ValidatingAdmissionPolicyBinding{1 metadata ObjectMeta;"
    "2 spec ValidatingAdmissionPolicyBindingSpec}"
    "ValidatingAdmissionPolicyBindingSpec{1 policyName s;2 paramRef ParamRef;"
    "3 matchResources MatchResources;4 validationActions []s set}"
    "ParamRef@{1 name s;2 namespace s;3 selector LabelSelector;4 parameterNotFoundAction s *}"
    "ValidatingWebhookConfiguration{1 metadata ObjectMeta;"
    "2 webhooks []ValidatingWebhook k=name mk=name}"
    "MutatingWebhookConfiguration{1 metadata ObjectMeta;"
    "2 webhooks []MutatingWebhook k=name mk=name}"
    "ValidatingWebhook{1 name s !;2 clientConfig WebhookClientConfig ! e;"
    "3 rules []RuleWithOperations;4 failurePolicy s *;9 matchPolicy s *;"
    "5 namespaceSelector LabelSelector;10 objectSelector LabelSelector;6 sideEffects s !;"
    "7 timeoutSeconds i *;8 admissionReviewVersions []s !;"
    "11 matchConditions []MatchCondition k=name mk=name}"
    "MutatingWebhook{1 name s !;2 clientConfig WebhookClientConfig ! e;"
    "3 rules []RuleWithOperations;4 failurePolicy s *;9 matchPolicy s *;"
    "5 namespaceSelector LabelSelector;11 objectSelector LabelSelector;6 sideEffects s !;"
    "7 timeoutSeconds i *;8 admissionReviewVersions []s !;10 reinvocationPolicy s *;"
    "12 matchConditions []MatchCondition k=name mk=name}"
    "WebhookClientConfig{3 url s *;1 service ServiceReference;2 caBundle y}"
    "RuleWithOperations{1 operations []s;2.1 apiGroups []s;2.2 apiVersions []s;"
    "2.3 resources []s;2.4 scope s *}"
    "ServiceReference{1 namespace s !;2 name s !;3 path s *;4 port i *}";

#define FIELDS_MAX 48

static struct sw_arena arena;
static struct sw_map types; /* name to struct sw_pb_type */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct sw_slice word(struct sw_slice *s)
{
    struct sw_slice w;

    while (s->n && s->p[0] == ' ')
        *s = sw_slice_from(*s, 1);
    w = sw_slice_head(*s, 0);
    while (w.n < s->n && s->p[w.n] != ' ')
        w.n++;
    *s = sw_slice_from(*s, w.n);
    return w;
}

static bool prefix(struct sw_slice *s, const char *p)
{
    if (!sw_slice_has_prefix(*s, sw_slice_str(p)))
        return false;
    *s = sw_slice_from(*s, strlen(p));
    return true;
}

static void scalar(struct sw_kube_pb_field *f, struct sw_schema *s)
{
    static const struct {
        const char *letter;
        enum sw_pb_kind kind;
        enum sw_stype type;
        const char *format;
    } kinds[] = {
        {"s", SW_PB_STRING, SW_T_STRING, ""},
        {"i", SW_PB_INT, SW_T_INTEGER, ""},
        {"b", SW_PB_BOOL, SW_T_BOOLEAN, ""},
        {"y", SW_PB_BYTES, SW_T_STRING, "byte"},
        {"t", SW_PB_TIME, SW_T_STRING, "date-time"},
        {"mt", SW_PB_MICROTIME, SW_T_STRING, "date-time"},
        {"ios", SW_PB_INT_OR_STRING, SW_T_NONE, ""},
        {"q", SW_PB_QUANTITY, SW_T_NONE, ""},
        {"any", SW_PB_JSON, SW_T_NONE, ""},
        {"items", SW_PB_ITEMS, SW_T_ARRAY, ""},
    };

    for (size_t i = 0; i < SW_ARRAY_LEN(kinds); i++) {
        if (!sw_slice_eq_str(f->type_name, kinds[i].letter))
            continue;
        f->kind = kinds[i].kind;
        s->type = kinds[i].type;
        s->format = sw_slice_str(kinds[i].format);
        s->int_or_string = f->kind == SW_PB_INT_OR_STRING;
        s->preserve = f->kind == SW_PB_JSON || f->kind == SW_PB_QUANTITY;
        if (f->kind == SW_PB_ITEMS) {
            s->items = sw_schema_blank(&arena);
            s->items->type = SW_T_STRING;
        }
        return;
    }
    f->kind = SW_PB_MESSAGE;
}

static void list_keys(struct sw_schema *s, struct sw_slice keys)
{
    s->list_type = SW_LIST_MAP;
    s->list_keys = sw_arena_array(&arena, 4, sizeof(*s->list_keys));
    while (keys.p && s->nlist_keys < 4)
        s->list_keys[s->nlist_keys++] = sw_slice_cut(&keys, '+');
}

static bool read_flag(struct sw_slice flag, struct sw_kube_pb_field *f, struct sw_schema *s)
{
    if (sw_slice_eq_str(flag, "*") || sw_slice_eq_str(flag, "!"))
        f->keep = true;
    if (sw_slice_eq_str(flag, "e"))
        f->always = true;
    if (sw_slice_eq_str(flag, "w"))
        f->wrapped = true;
    if (sw_slice_eq_str(flag, "set"))
        s->list_type = SW_LIST_SET;
    if (sw_slice_eq_str(flag, "merge"))
        s->patch_merge = true;
    if (sw_slice_eq_str(flag, "atomic"))
        s->map_atomic = true;
    if (prefix(&flag, "k="))
        list_keys(s, flag);
    if (prefix(&flag, "mk=")) {
        s->merge_key = flag;
        s->patch_merge = true;
    }
    if (prefix(&flag, "d="))
        s->def = sw_json_new_string(&arena, flag);
    return sw_slice_eq_str(flag, "!");
}

/* "3", or "2.1.3": the last one is the field's own. */
static void read_number(struct sw_slice text, struct sw_kube_pb_field *f)
{
    uint64_t n = 0;

    while (text.p) {
        if (n && f->nouter < SW_ARRAY_LEN(f->outer))
            f->outer[f->nouter++] = (uint32_t)n;
        if (!sw_slice_to_u64(sw_slice_cut(&text, '.'), 1000, &n))
            abort(); /* our own table */
    }
    f->number = (uint32_t)n;
}

/* One field; returns true when it is required. */
static bool read_field(struct sw_slice text, struct sw_kube_pb_field *f, struct sw_schema **ret)
{
    struct sw_schema *s = sw_schema_blank(&arena);
    struct sw_schema *inner = s;
    bool required = false;

    read_number(word(&text), f);
    f->name = word(&text);
    f->type_name = word(&text);
    f->repeated = prefix(&f->type_name, "[]");
    f->map = prefix(&f->type_name, "{}");
    if (f->repeated || f->map) {
        inner = sw_schema_blank(&arena);
        s->type = f->repeated ? SW_T_ARRAY : SW_T_OBJECT;
        *(f->repeated ? &s->items : &s->additional) = inner;
    }
    scalar(f, inner);
    while (text.n)
        required = read_flag(word(&text), f, s) || required;
    *ret = s;
    return required;
}

static void read_type(struct sw_slice head, struct sw_slice body)
{
    struct sw_pb_type *t = SW_ARENA_NEW(&arena, struct sw_pb_type);
    struct sw_schema *s = sw_schema_blank(&arena);

    t->atomic = head.n && head.p[head.n - 1] == '@';
    t->name = sw_slice_head(head, head.n - t->atomic);
    t->fields = sw_arena_array(&arena, FIELDS_MAX, sizeof(*t->fields));
    t->schema = s;
    s->type = SW_T_OBJECT;
    s->map_atomic = t->atomic;
    s->ref = t->name;
    s->props = sw_arena_array(&arena, FIELDS_MAX, sizeof(*s->props));
    s->required = sw_arena_array(&arena, FIELDS_MAX, sizeof(*s->required));
    while (body.p && t->nfields < FIELDS_MAX) {
        struct sw_kube_pb_field *f = &t->fields[t->nfields++];

        if (read_field(sw_slice_cut(&body, ';'), f, &s->props[s->nprops].schema))
            s->required[s->nrequired++] = f->name;
        s->props[s->nprops++].name = f->name;
    }
    SW_SORT_BY(s->props, s->nprops, name);
    (void)sw_map_put(&types, t->name, t);
}

static struct sw_schema *prop_schema(struct sw_schema *s, struct sw_slice name)
{
    for (size_t i = 0; i < s->nprops; i++) {
        if (sw_slice_eq(s->props[i].name, name))
            return s->props[i].schema;
    }
    return NULL;
}

/* Second pass: fields of message type point to that type. */
static void link_type(struct sw_pb_type *t)
{
    for (size_t i = 0; i < t->nfields; i++) {
        struct sw_kube_pb_field *f = &t->fields[i];
        struct sw_schema *s = prop_schema(t->schema, f->name);
        struct sw_pb_type *m;

        if (f->kind != SW_PB_MESSAGE || !s)
            continue;
        m = sw_map_get(&types, f->type_name);
        if (!m)
            abort(); /* a name in the table that the table does not have */
        f->type = m;
        if (f->repeated)
            s->items = m->schema;
        else if (f->map)
            s->additional = m->schema;
        for (size_t k = 0; k < t->schema->nprops && !f->repeated && !f->map; k++) {
            if (sw_slice_eq(t->schema->props[k].name, f->name))
                t->schema->props[k].schema = m->schema;
        }
    }
}

static void load_table(struct sw_slice rest)
{
    while (rest.n) {
        struct sw_slice head = sw_slice_cut(&rest, '{');
        const char *end = NULL;

        /* Map types contain "{}": the closing brace is the one that ends a type. */
        for (size_t i = 0; i < rest.n && !end; i++) {
            if (rest.p[i] == '}' && (i == 0 || rest.p[i - 1] != '{'))
                end = rest.p + i;
        }
        if (!end)
            abort();
        read_type(head, sw_slice(rest.p, (size_t)(end - rest.p)));
        rest = sw_slice_from(rest, (size_t)(end - rest.p) + 1);
    }
}

static void load(void)
{
    load_table(SW_SLICE_LIT(table));
    load_table(sw_slice_str(sw_builtin_pod_types));
    load_table(sw_slice_str(sw_builtin_work_types));
    SW_MAP_FOREACH (it, &types)
        link_type(it->value);
}

const struct sw_pb_type *sw_builtin_type(struct sw_slice name)
{
    (void)pthread_once(&once, load);
    return sw_map_get(&types, name);
}

const struct sw_schema *sw_builtin_schema(const char *type)
{
    const struct sw_pb_type *t = sw_builtin_type(sw_slice_str(type));

    return t ? t->schema : NULL;
}
