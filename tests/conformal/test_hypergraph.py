import networkx as nx
import numpy as np
import pytest
from tests.conformal.reference import mass, random_problem

from fallline.conformal import RouteHypergraph, path_elements


def test_equal_routes_are_merged_and_zero_weights_left_out():
    H = RouteHypergraph.from_routes(
        [["a", "b"], ["b", "a", "b"], ["c"], ["d"], ("b", "a")], [1, 2, 0, 5, 4]
    )
    assert H.elements == ("a", "b", "c", "d")
    assert H.weights.tolist() == [7, 5]
    assert H.indptr.tolist() == [0, 2, 3]
    assert H.indices.tolist() == [0, 1, 3]
    assert H.total == 12
    assert H.traffic.tolist() == [7, 7, 0, 5]
    assert (H.n, H.m, repr(H)) == (4, 2, "RouteHypergraph(2 routes over 4 elements)")


def test_the_mass_of_a_set_is_that_of_the_routes_inside():
    rng = np.random.default_rng(0)
    for _ in range(50):
        routes, weights, _ = random_problem(rng)
        H = RouteHypergraph.from_routes(routes, weights)
        K = {*rng.choice(8, size=4).tolist()}
        assert H.mass(K) == mass(routes, weights, K)
    assert H.mass({"unknown"}) == 0


def test_costs_come_as_a_mapping_or_in_the_order_of_the_universe():
    by_name = RouteHypergraph.from_routes([["b"], ["a"]], cost={"a": 2.0, "b": 3.0})
    in_order = RouteHypergraph.from_routes([["b"], ["a"]], cost=[3, 2], universe="ba")
    assert by_name.cost.tolist() == in_order.cost.tolist() == [3, 2]


@pytest.mark.parametrize(
    ("routes", "options", "said"),
    [
        ([], {}, "none of the 0 routes"),
        ([[], []], {}, "none of the 2 routes has an element and a positive weight"),
        ([["a"]], {"weights": [0]}, "positive weight"),
        ([["a"], ["b"]], {"weights": [1, -1]}, r"weights\[1\] is -1"),
        ([["a"], ["b"]], {"weights": [np.nan, 1]}, r"weights\[0\] is nan"),
        ([["a"], ["b"]], {"weights": [1, np.inf]}, r"weights\[1\] is inf"),
        ([["a"], ["b"]], {"weights": [1]}, r"weights has shape \(1,\)"),
        ([["a"]], {"cost": {"a": 0}}, "cost of the element 'a' is 0"),
        ([["a"]], {"cost": {"a": -2}}, "must be finite and > 0"),
        ([["a"], ["b"]], {"cost": {"a": 1}}, "none for the element 'b'"),
        ([["a"], ["b"]], {"cost": [1]}, r"cost has shape \(1,\); expected \(2,\)"),
        ([["a"], ["b"]], {"universe": ["a"]}, r"routes\[1\] has the element 'b'"),
    ],
)
def test_errors_name_the_argument_and_the_value(routes, options, said):
    with pytest.raises(ValueError, match=said):
        RouteHypergraph.from_routes(routes, **options)


def test_a_string_is_no_route():
    with pytest.raises(TypeError, match=r"routes\[1\] is the string 'ab'"):
        RouteHypergraph.from_routes([["a"], "ab"])


# Graphs


def test_edges_of_an_undirected_graph_are_sorted_pairs():
    G = nx.Graph([(2, 1), (2, 3)])
    G[1][2]["length"], G[2][3]["length"] = 5.0, 7.0
    H = RouteHypergraph.from_paths(G, [[1, 2, 3], [3, 2, 1], [2, 3]], cost="length")
    assert H.elements == ((1, 2), (2, 3))
    assert H.cost.tolist() == [5, 7]
    assert H.weights.tolist() == [2, 1]


def test_edges_of_a_directed_graph_are_ordered_pairs():
    G = nx.DiGraph([(2, 1), (1, 2)])
    H = RouteHypergraph.from_paths(G, [[1, 2], [2, 1], [1, 2]])
    assert H.elements == ((2, 1), (1, 2))
    assert H.weights.tolist() == [2, 1]


def test_a_multigraph_adds_the_key_of_the_cheapest_edge():
    G = nx.MultiGraph()
    G.add_edge("a", "b", key="street", length=3.0)
    G.add_edge("a", "b", key="alley", length=2.0)
    H = RouteHypergraph.from_paths(G, [["b", "a"]], cost="length")
    assert H.elements == (("a", "b", "street"), ("a", "b", "alley"))
    assert H.indices.tolist() == [1]
    assert path_elements(G, ["a", "b"]) == [("a", "b", "street")]
    D = nx.MultiDiGraph([(2, 1, 0)])
    assert path_elements(D, [2, 1]) == [(2, 1, 0)]


def test_nodes_as_elements():
    G = nx.path_graph(4)
    nx.set_node_attributes(G, {0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}, "bytes")
    H = RouteHypergraph.from_paths(G, [[0, 1], [1, 2]], element="node", cost="bytes")
    assert H.elements == (0, 1, 2, 3)
    assert H.cost.tolist() == [1, 2, 3, 4]
    assert H.traffic.tolist() == [1, 2, 1, 0]


def test_nodes_that_cannot_be_compared_are_ordered_by_type_and_text():
    G = nx.Graph([("a", 1)])
    assert path_elements(G, ["a", 1]) == path_elements(G, [1, "a"]) == [(1, "a")]


def test_a_path_off_the_graph_names_the_step():
    G = nx.path_graph(3)
    with pytest.raises(ValueError, match="steps from 0 to 2, which is not an edge"):
        RouteHypergraph.from_paths(G, [[0, 1], [0, 2]])
    with pytest.raises(ValueError, match="the node 9"):
        RouteHypergraph.from_paths(G, [[0, 9]], element="node")
    with pytest.raises(ValueError, match="the node 9"):
        RouteHypergraph.from_paths(G, [[9]])
    with pytest.raises(ValueError, match="element='arc'"):
        RouteHypergraph.from_paths(G, [[0, 1]], element="arc")
    with pytest.raises(ValueError, match=r"edge \(0, 1\) has no such attribute"):
        RouteHypergraph.from_paths(G, [[0, 1]], cost="length")
