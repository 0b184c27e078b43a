"""What each kernel computes, on the host and as plain as it can be written."""

import functools

import numpy as np
from jax import lax
from scipy.optimize import linear_sum_assignment

LAYOUT = ("NHWC", "HWIO", "NHWC")


def joint_tables(number, bins, classes, sizes, weights=None):
    tables = np.zeros((number.shape[1], bins, sum(sizes)), np.float32)
    offsets = np.cumsum([0, *sizes[:-1]])
    for code, factor, sample in np.ndindex(number.shape[1], len(sizes), len(number)):
        value = offsets[factor] + classes[sample, factor]
        tables[code, number[sample, code], value] += 1 if weights is None else weights[sample]
    return tables


def pair_tables(left, right, bins):
    tables = np.zeros((left.shape[1], right.shape[1], bins, bins), np.float32)
    for i, j, sample in np.ndindex(left.shape[1], right.shape[1], len(left)):
        tables[i, j, left[sample, i], right[sample, j]] += 1
    return np.moveaxis(tables, 1, 2).reshape(left.shape[1], bins, -1)


def pair_sums(left, right, bins, terms):
    tables = pair_tables(left, right, bins).reshape(left.shape[1], bins, right.shape[1], bins)
    return terms[:, tables.astype(np.int32)].sum(axis=(2, 4), dtype=terms.dtype)


def segment_tables(true, predicted, true_segments, predicted_segments):
    tables = np.zeros((len(true), true_segments, predicted_segments), np.float32)
    for image, pixel in np.ndindex(true.shape):
        i, j = true[image, pixel], predicted[image, pixel]
        if 0 <= i < true_segments and 0 <= j < predicted_segments:
            tables[image, i, j] += 1
    return tables


def running_sums(histogram):
    return np.cumsum(histogram.astype(np.float64), axis=1)


def sums_in_bins(bins, rows, num_bins):
    table = np.zeros((len(bins), num_bins, rows.shape[1]), rows.dtype)
    for code, sample in np.ndindex(bins.shape):
        table[code, bins[code, sample]] += rows[sample]
    return table


def sums_in_nodes(node, values, nodes):
    return np.stack([[np.where(node == q, value, 0).sum(axis=0) for q in range(nodes)] for value in values])


def sums_in_classes(terms, classes, rows, size):
    found = [np.asarray(term, np.float64) for term in terms(classes, rows)]
    tables = np.zeros((len(found), size, rows.shape[1]))
    for table, term in zip(tables, found, strict=True):
        np.add.at(table, classes, term)
    return tables


def sums_over_classes(values, sizes):
    return np.stack([part.astype(np.float64).sum(axis=0) for part in np.split(values, np.cumsum(sizes)[:-1])])


spread_over_classes = functools.partial(np.repeat, axis=0)


def of_own_class(values, places, _sizes):
    return np.take_along_axis(np.asarray(values), np.asarray(places), axis=0)


def variances_in_batches(codes, rows):
    return codes.astype(np.float64)[rows].var(axis=0, ddof=1)


def distances_in_batches(codes, rows, partners):
    return np.abs(codes.astype(np.float64)[rows] - codes.astype(np.float64)[partners]).mean(axis=0)


def smallest(rows, k):
    return np.sort(rows, axis=1)[:, :k]


def radii(ordered, value, neighbors):
    distances = np.maximum(*(np.abs(column[:, None] - column[None, :]) for column in (ordered, value)))
    nearest = np.sort(distances, axis=1)[:, 1 : neighbors + 1]  # the sample itself is the first
    return nearest[:, -1], (nearest < nearest[:, -1:]).sum(axis=1)


def pairs_of(costs):
    pairs = np.array([linear_sum_assignment(cost) for cost in costs], np.int32)
    return pairs[:, 0], pairs[:, 1]


def entries_at(array, *places):
    return np.asarray(array)[places]


def placed_at(entries, places, size):
    result = np.zeros(size, entries.dtype)
    result[places] = entries
    return result


def each(function, inputs):
    return np.stack([function(entry) for entry in inputs])


def stepwise(step, numbers, state):
    return functools.reduce(lambda state, number: step(number, state), numbers, state)


def convolution(images, kernel, strides, padding):
    return lax.conv_general_dilated(images, kernel, strides, padding, dimension_numbers=LAYOUT)


thin_product = np.matmul
transposed_convolution = functools.partial(lax.conv_transpose, strides=(2, 2), padding="SAME", dimension_numbers=LAYOUT)


def transposed_convolution_five(images, kernel):
    return lax.conv_general_dilated(
        images, kernel[::-1, ::-1], (1, 1), [(2, 3)] * 2, lhs_dilation=(2, 2), dimension_numbers=LAYOUT
    )
